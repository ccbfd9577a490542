// Adds one digit to each of LANES counters that lie bit-sliced: plane k holds bit k of all of them.
// A digit is 0, 1 or 2, and so a carry out of bit 0 never meets a bit 1 of the digit: an OR joins the
// two, and a chain of half adders is all that is left. Signs are digits without a bit 1.
//
// carry_o tells the lanes whose counter did not fit; the caller refuses what could set it.
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
