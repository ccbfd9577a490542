// Adds the slots of one line in worker order, sixteen lanes in parallel, two cycles per addition. In
// the second cycle the next slot is read. The unit is beside the pipeline: while it is busy, the
// stages wait.
//
// start_i is set in the cycle before stage 5 holds the request, together with the read of slot 0.
module nf_fp32_fold
  import nf_reducer_pkg::*;
(
    input  logic                    clk_i,
    input  logic                    rst_ni,
    input  logic                    start_i,
    input  logic [ADDRESS_BITS-1:0] slot0_i,      // with start_i: the address of slot 0
    input  logic [ADDRESS_BITS-1:0] line_mask_i,  // lines from one slot to the next, less one
    input  logic [WINDOW_BITS-1:0]  workers_i,    // at least 2
    // Slot 0 may be the line in stage 5, which is written while it is read here.
    input  logic                    own_slot0_i,
    input  logic [LINE_BITS-1:0]    own_line_i,
    output logic                    read_o,
    output logic [ADDRESS_BITS-1:0] read_address_o,
    input  logic [LINE_BITS-1:0]    line_i,     // the slot, in the cycle after read_o
    output logic                    busy_o,
    output logic                    last_o,     // the last cycle of busy_o, in which sum_o is the sum
    output logic [LINE_BITS-1:0]    sum_o
);

  localparam int unsigned LANES = LINE_BITS / 32;

  typedef enum logic [1:0] {
    IDLE,
    READ,   // slot 1 is being read, slot 0 arrives
    ALIGN,  // first cycle of an addition
    ROUND   // second; the next slot is being read
  } phase_e;

  phase_e phase_q;
  logic [WINDOW_BITS-1:0] slot_q, workers_q;
  logic [ADDRESS_BITS-1:0] address_q, line_mask_q;
  logic [LINE_BITS-1:0] sum_q;

  for (genvar lane = 0; lane < LANES; lane++) begin : gen_lane
    nf_fp32_adder i_adder (
        .clk_i,
        .a_i  (sum_q[32*lane+:32]),
        .b_i  (line_i[32*lane+:32]),
        .sum_o(sum_o[32*lane+:32])
    );
  end

  assign busy_o         = phase_q != IDLE;
  assign last_o         = phase_q == ROUND && slot_q + 1'b1 == workers_q;
  assign read_o         = phase_q == READ || (phase_q == ROUND && !last_o);
  assign read_address_o = address_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q <= IDLE;
      slot_q  <= '0;
    end else begin
      unique case (phase_q)
        IDLE:
        if (start_i) begin
          phase_q <= READ;
          slot_q  <= WINDOW_BITS'(1);
        end
        READ:  phase_q <= ALIGN;
        ALIGN: phase_q <= ROUND;
        ROUND: begin
          phase_q <= last_o ? IDLE : ALIGN;
          slot_q  <= slot_q + 1'b1;
        end
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      line_mask_q <= line_mask_i;
      workers_q   <= workers_i;
      address_q   <= slot0_i + line_mask_i + 1'b1;
    end else if (read_o) begin
      address_q <= address_q + line_mask_q + 1'b1;
    end
    if (phase_q == READ) sum_q <= own_slot0_i ? own_line_i : line_i;
    else if (phase_q == ROUND) sum_q <= sum_o;
  end

endmodule
