// Proves the bit-sliced adder: in every lane the new counter and its carry equal the old counter plus
// the digit, for all values of both.
module nf_count_adder_proof (
    input logic [15:0] counts_i,
    input logic [1:0]  digit0_i,
    input logic [1:0]  digit1_i
);

  localparam int unsigned LANES = 2;
  localparam int unsigned PLANES = 8;

  logic [15:0] counts_o;
  logic [1:0] carry_o;
  nf_count_adder #(
      .LANES (LANES),
      .PLANES(PLANES)
  ) i_adder (
      .counts_i(counts_i),
      .digit0_i(digit0_i),
      .digit1_i(digit1_i),
      .counts_o(counts_o),
      .carry_o (carry_o)
  );

  logic [7:0] before0, before1, after0, after1;
  always_comb begin
    for (int k = 0; k < 8; k = k + 1) begin
      before0[k] = counts_i[2*k];
      before1[k] = counts_i[2*k+1];
      after0[k]  = counts_o[2*k];
      after1[k]  = counts_o[2*k+1];
    end
    assume ((digit0_i & digit1_i) == 2'd0);
    assert ({carry_o[0], after0} == {1'b0, before0} + {7'd0, digit1_i[0], digit0_i[0]});
    assert ({carry_o[1], after1} == {1'b0, before1} + {7'd0, digit1_i[1], digit0_i[1]});
  end

endmodule
