// Decodes a gradient line into the digits of its lanes, as two lines: digit0_o has the lanes that add
// 1, digit1_o those that add 2. Lines of all modes except g_ternary pass unchanged: the signs of
// g_binary, the bytes of the others.
//
// g_ternary: byte j of unit u of 32 bytes holds the lanes 160 u + 32 i + j, i = 0 ... 4.
module nf_digit_decoder
  import nf_reducer_pkg::*;
(
    input  logic                 ternary_i,
    input  logic [LINE_BITS-1:0] line_i,
    output logic [LINE_BITS-1:0] digit0_o,
    output logic [LINE_BITS-1:0] digit1_o,
    output logic                 bad_o      // some byte does not encode five digits
);

  localparam int unsigned UNITS = 2;
  localparam int unsigned UNIT_BYTES = 32;
  localparam int unsigned DIGITS = 5;

  logic [LINE_BITS-1:0] ternary0, ternary1;
  logic [UNITS*UNIT_BYTES-1:0] good;

  for (genvar u = 0; u < UNITS; u++) begin : gen_unit
    for (genvar j = 0; j < UNIT_BYTES; j++) begin : gen_byte
      logic [DIGITS-1:0] low, high;
      nf_trit_decoder i_trits (
          .byte_i  (line_i[8*(UNIT_BYTES*u+j)+:8]),
          .digit0_o(low),
          .digit1_o(high),
          .valid_o (good[UNIT_BYTES*u+j])
      );
      for (genvar i = 0; i < DIGITS; i++) begin : gen_digit
        assign ternary0[UNIT_BYTES*(DIGITS*u+i)+j] = low[i];
        assign ternary1[UNIT_BYTES*(DIGITS*u+i)+j] = high[i];
      end
    end
  end
  assign ternary0[LINE_BITS-1:UNITS*UNIT_BYTES*DIGITS] = '0;
  assign ternary1[LINE_BITS-1:UNITS*UNIT_BYTES*DIGITS] = '0;

  assign digit0_o = ternary_i ? ternary0 : line_i;
  assign digit1_o = ternary_i ? ternary1 : '0;
  assign bad_o    = ternary_i && !(&good);

endmodule
