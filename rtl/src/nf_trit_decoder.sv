// Decodes a byte t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4 into its five ternary digits: 0 negative, 1 closed,
// 2 positive. For a byte above 242 valid_o is low and the digits are undefined.
//
// Four steps divide by 81, 27, 9 and 3 and pass on the remainder.
module nf_trit_decoder (
    input  logic [7:0] byte_i,
    output logic [4:0] digit0_o,  // bit 0 of the five digits
    output logic [4:0] digit1_o,  // bit 1
    output logic       valid_o
);

  logic [6:0] below81;  // 0 ... 80 for a valid byte
  logic [4:0] below27;
  logic [3:0] below9;
  logic [1:0] below3;

  assign valid_o = byte_i <= 8'd242;

  always_comb begin
    digit1_o[4] = byte_i >= 8'd162;
    digit0_o[4] = byte_i >= 8'd81 && !digit1_o[4];
    below81     = 7'(byte_i - (digit1_o[4] ? 8'd162 : digit0_o[4] ? 8'd81 : 8'd0));
    digit1_o[3] = below81 >= 7'd54;
    digit0_o[3] = below81 >= 7'd27 && !digit1_o[3];
    below27     = 5'(below81 - (digit1_o[3] ? 7'd54 : digit0_o[3] ? 7'd27 : 7'd0));
    digit1_o[2] = below27 >= 5'd18;
    digit0_o[2] = below27 >= 5'd9 && !digit1_o[2];
    below9      = 4'(below27 - (digit1_o[2] ? 5'd18 : digit0_o[2] ? 5'd9 : 5'd0));
    digit1_o[1] = below9 >= 4'd6;
    digit0_o[1] = below9 >= 4'd3 && !digit1_o[1];
    below3      = 2'(below9 - (digit1_o[1] ? 4'd6 : digit0_o[1] ? 4'd3 : 4'd0));
    digit1_o[0] = below3[1];
    digit0_o[0] = below3[0];
  end

endmodule
