// Registers a ready/valid stream in both directions: the outputs and ready_o are registers. One cycle
// of latency, full throughput. The second entry takes the item in flight when the receiver stops.
module nf_skid_buffer #(
    parameter int unsigned BITS = 8
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    input  logic            valid_i,
    output logic            ready_o,
    input  logic [BITS-1:0] data_i,
    output logic            valid_o,
    input  logic            ready_i,
    output logic [BITS-1:0] data_o
);

  logic valid_q, spare_q;  // spare_q: the second entry is used
  logic [BITS-1:0] data_q, spare_data_q;

  assign ready_o = !spare_q;
  assign valid_o = valid_q;
  assign data_o  = data_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      spare_q <= 1'b0;
    end else if (ready_i || !valid_q) begin
      valid_q <= valid_i || spare_q;
      spare_q <= 1'b0;
    end else if (valid_i && !spare_q) begin
      spare_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready_i || !valid_q) data_q <= spare_q ? spare_data_q : data_i;
    if (!spare_q) spare_data_q <= data_i;
  end

endmodule
