// The rule of a ready/valid stream: once valid, an item stays valid and unchanged until it is taken.
// Uses immediate assertions, which both Verilator and yosys support.
module nf_stream_check #(
    parameter int unsigned BITS = 8
) (
    input logic            clk_i,
    input logic            rst_ni,
    input logic            valid_i,
    input logic            ready_i,
    input logic [BITS-1:0] data_i
);

  logic waiting_q;
  logic [BITS-1:0] data_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) waiting_q <= 1'b0;
    else waiting_q <= valid_i && !ready_i;
  end
  always_ff @(posedge clk_i) data_q <= data_i;

  always_ff @(posedge clk_i) begin
    if (rst_ni && waiting_q) begin
      assert (valid_i);
      assert (data_i == data_q);
    end
  end

endmodule
