// Adds one digit to each of LANES bit-sliced counters: plane k holds bit k of all of them. A digit is
// 0, 1 or 2, so a carry out of bit 0 and bit 1 of the digit are never both set: an OR combines them,
// and a chain of half adders does the rest. Signs are digits without a bit 1.
//
// carry_o marks the lanes whose counter overflowed; the caller rejects requests that could set it.
module nf_count_adder #(
    parameter int unsigned LANES  = 512,
    parameter int unsigned PLANES = 8
) (
    input  logic [PLANES*LANES-1:0] counts_i,
    input  logic [       LANES-1:0] digit0_i,  // bit 0 of the digits
    input  logic [       LANES-1:0] digit1_i,  // bit 1 of the digits
    output logic [PLANES*LANES-1:0] counts_o,
    output logic [       LANES-1:0] carry_o
);

  always_comb begin
    logic [LANES-1:0] plane;
    carry_o = digit0_i;
    for (int unsigned k = 0; k < PLANES; k++) begin
      plane = counts_i[k*LANES+:LANES];
      counts_o[k*LANES+:LANES] = plane ^ carry_o;
      carry_o = plane & carry_o;
      if (k == 0) carry_o = carry_o | digit1_i;
    end
  end

endmodule
