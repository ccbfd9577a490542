// Proves that every item that enters a skid buffer leaves it once and in order, for all patterns: the
// solver chooses a position of the stream, and the item stored there must leave at that position.
module nf_skid_buffer_proof (
    input logic       clk_i,
    input logic       valid_i,
    input logic [3:0] data_i,
    input logic       ready_i
);

  localparam int unsigned BITS = 4;

  logic started_q = 1'b0;
  always @(posedge clk_i) started_q <= 1'b1;

  logic ready_o, valid_o;
  logic [BITS-1:0] data_o;
  nf_skid_buffer #(
      .BITS(BITS)
  ) i_buffer (
      .clk_i(clk_i),
      .rst_ni(started_q),
      .valid_i(valid_i),
      .ready_o(ready_o),
      .data_i(data_i),
      .valid_o(valid_o),
      .ready_i(ready_i),
      .data_o(data_o)
  );
  nf_stream_check #(
      .BITS(BITS)
  ) i_check (
      .clk_i(clk_i),
      .rst_ni(started_q),
      .valid_i(valid_o),
      .ready_i(ready_i),
      .data_i(data_o)
  );

  logic [5:0] chosen;  // no initial value: chosen by the solver
  always @(posedge clk_i) chosen <= chosen;
  logic [5:0] in_q = 6'd0, out_q = 6'd0;
  logic [BITS-1:0] kept_q;
  logic [5:0] held;
  assign held = in_q - out_q;

  always @(posedge clk_i) begin
    if (started_q) begin
      if (valid_i && ready_o) begin
        in_q <= in_q + 6'd1;
        if (in_q == chosen) kept_q <= data_i;
      end
      if (valid_o && ready_i) begin
        out_q <= out_q + 6'd1;
        if (out_q == chosen) assert (data_o == kept_q);
      end
      // The buffer holds at most two items, and valid_o is set only if it holds one.
      assert (held <= 6'd2);
      assert (valid_o == (held != 6'd0));
      assert (ready_o == (held != 6'd2));
    end
  end

endmodule
