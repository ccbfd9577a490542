// The reducer behind six pins, for place and route. All inputs come from a chain of registers that is
// shifted in, all outputs go to one that is shifted out. With skid buffers on both sides every path
// of the reducer starts and ends in a register, as between a link and a memory.
module nf_reducer_pins
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES = 8,
    parameter int unsigned WORKERS = 64,
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORDS = 512,
    parameter int unsigned LATENCY = 5
) (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic shift_i,   // the output chain shifts, otherwise it captures the outputs
    input  logic serial_i,
    output logic serial_o
);

  typedef struct packed {
    logic                         valid;
    logic                         write;
    logic [BYTE_ADDRESS_BITS-1:0] address;
    logic [LINE_BITS-1:0]         data;
    logic                         answer_ready;
    logic                         register_valid;
    logic                         register_write;
    logic [15:0]                  register_address;
    logic [63:0]                  register_data;
    logic                         register_ready;
    logic [LINE_BITS-1:0]         line;
  } inputs_t;

  typedef struct packed {
    logic                    ready;
    logic                    answer_valid;
    logic [3:0]              error;
    logic                    complete;
    logic [LINE_BITS-1:0]    data;
    logic                    register_ready;
    logic                    register_valid;
    logic [3:0]              register_error;
    logic [63:0]             register_data;
    logic                    line_read;
    logic [ADDRESS_BITS-1:0] line_read_address;
    logic                    line_write;
    logic [ADDRESS_BITS-1:0] line_write_address;
    logic [LINE_BITS-1:0]    line;
  } outputs_t;

  inputs_t in_q;
  outputs_t out, out_q;

  always_ff @(posedge clk_i) begin
    in_q  <= {in_q[$bits(inputs_t)-2:0], serial_i};
    out_q <= shift_i ? {out_q[$bits(outputs_t)-2:0], 1'b0} : out;
  end
  assign serial_o = out_q[$bits(outputs_t)-1];

  logic valid, ready, write;
  logic [BYTE_ADDRESS_BITS-1:0] address;
  logic [LINE_BITS-1:0] data, answer_data;
  logic answer_valid, answer_ready, complete;
  logic [3:0] error;

  nf_skid_buffer #(
      .BITS(1 + BYTE_ADDRESS_BITS + LINE_BITS)
  ) i_requests (
      .clk_i,
      .rst_ni,
      .valid_i(in_q.valid),
      .ready_o(out.ready),
      .data_i ({in_q.write, in_q.address, in_q.data}),
      .valid_o(valid),
      .ready_i(ready),
      .data_o ({write, address, data})
  );

  nf_skid_buffer #(
      .BITS(5 + LINE_BITS)
  ) i_answers (
      .clk_i,
      .rst_ni,
      .valid_i(answer_valid),
      .ready_o(answer_ready),
      .data_i ({error, complete, answer_data}),
      .valid_o(out.answer_valid),
      .ready_i(in_q.answer_ready),
      .data_o ({out.error, out.complete, out.data})
  );

  nf_reducer #(
      .PLANES (PLANES),
      .WORKERS(WORKERS),
      .REGIONS(REGIONS),
      .RECORDS(RECORDS),
      .LATENCY(LATENCY)
  ) i_reducer (
      .clk_i,
      .rst_ni,
      .valid_i             (valid),
      .ready_o             (ready),
      .write_i             (write),
      .address_i           (address),
      .data_i              (data),
      .valid_o             (answer_valid),
      .ready_i             (answer_ready),
      .error_o             (error),
      .complete_o          (complete),
      .data_o              (answer_data),
      .register_valid_i    (in_q.register_valid),
      .register_ready_o    (out.register_ready),
      .register_write_i    (in_q.register_write),
      .register_address_i  (in_q.register_address),
      .register_data_i     (in_q.register_data),
      .register_valid_o    (out.register_valid),
      .register_ready_i    (in_q.register_ready),
      .register_error_o    (out.register_error),
      .register_data_o     (out.register_data),
      .line_read_o         (out.line_read),
      .line_read_address_o (out.line_read_address),
      .line_i              (in_q.line),
      .line_write_o        (out.line_write),
      .line_write_address_o(out.line_write_address),
      .line_o              (out.line)
  );

endmodule
