// Assertions bound to the reducer in simulation: its streams follow the ready/valid protocol, and
// every answer has a request. This includes answers of identity reads, which come from the memory.
module nf_reducer_checks
  import nf_reducer_pkg::*;
#(
    parameter int unsigned LATENCY = 5
) (
    input logic                 clk_i,
    input logic                 rst_ni,
    input logic                 valid_i,
    input logic                 ready_o,
    input logic                 valid_o,
    input logic                 ready_i,
    input logic [3:0]           error_o,
    input logic                 complete_o,
    input logic [LINE_BITS-1:0] data_o,
    input logic                 register_valid_o,
    input logic                 register_ready_i,
    input logic [3:0]           register_error_o,
    input logic [63:0]          register_data_o
);

  nf_stream_check #(
      .BITS(5 + LINE_BITS)
  ) i_answers (
      .clk_i,
      .rst_ni,
      .valid_i(valid_o),
      .ready_i(ready_i),
      .data_i ({error_o, complete_o, data_o})
  );

  nf_stream_check #(
      .BITS(4 + 64)
  ) i_register_answers (
      .clk_i,
      .rst_ni,
      .valid_i(register_valid_o),
      .ready_i(register_ready_i),
      .data_i ({register_error_o, register_data_o})
  );

  // There are never more requests in flight than stages.
  logic [3:0] held_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) held_q <= '0;
    else held_q <= held_q + 4'(valid_i && ready_o) - 4'(valid_o && ready_i);
  end
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (held_q <= 4'(LATENCY));
      assert (!valid_o || held_q != '0);
      assert (!(complete_o && valid_o && error_o != '0));
    end
  end

endmodule

bind nf_reducer nf_reducer_checks #(.LATENCY(LATENCY)) i_checks (.*);
