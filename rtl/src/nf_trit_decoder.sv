// One byte of five ternary digits, t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4, into its digits: 0 negative,
// 1 closed, 2 positive. A byte above 242 is no such number: valid_o falls and the digits are closed.
//
// A table of 256 rows, which the tools turn into gates: dividers would be ten times deeper.
module nf_trit_decoder (
    input  logic [7:0] byte_i,
    output logic [4:0] digit0_o,  // bit 0 of the five digits
    output logic [4:0] digit1_o,  // bit 1
    output logic       valid_o
);

  // A row: valid, the bits 1, the bits 0.
  function automatic logic [256*11-1:0] make_rows();
    integer rest;
    for (integer value = 0; value < 256; value = value + 1) begin
      rest = value;
      make_rows[value*11+10] = value <= 242;
      for (integer place = 0; place < 5; place = place + 1) begin
        make_rows[value*11+5+place] = value <= 242 && rest % 3 == 2;
        make_rows[value*11+place]   = value > 242 || rest % 3 == 1;
        rest = rest / 3;
      end
    end
  endfunction

  localparam logic [256*11-1:0] ROWS = make_rows();

  assign {valid_o, digit1_o, digit0_o} = ROWS[12'(byte_i)*12'd11+:11];

endmodule
