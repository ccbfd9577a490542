// Proves that every byte up to 242 equals the value of its digits, and that no digit is 3.
module nf_trit_decoder_proof (
    input logic [7:0] byte_i
);

  logic [4:0] low, high;
  logic valid;
  nf_trit_decoder i_decoder (
      .byte_i  (byte_i),
      .digit0_o(low),
      .digit1_o(high),
      .valid_o (valid)
  );

  logic [9:0] number;
  always_comb begin
    number = 10'd81 * {8'd0, high[4], low[4]} + 10'd27 * {8'd0, high[3], low[3]}
           + 10'd9 * {8'd0, high[2], low[2]} + 10'd3 * {8'd0, high[1], low[1]}
           + {8'd0, high[0], low[0]};
    assert (valid == (byte_i <= 8'd242));
    if (valid) begin
      assert (number == {2'd0, byte_i});
      assert ((low & high) == 5'd0);
    end
  end

endmodule
