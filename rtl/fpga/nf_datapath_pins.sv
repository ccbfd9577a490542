// The 512-bit datapath and its store behind five pins, for place and route. It excludes the register
// map and the FP32 adders, whose signals come from the chain. All inputs come from a chain of
// registers that is shifted in, all outputs go to one that is shifted out.
module nf_datapath_pins
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

  localparam int unsigned RECORD_BITS = RECORDS > 1 ? $clog2(RECORDS) : 1;
  localparam int unsigned STATE_BITS = GENERATION_BITS + WORKERS + PLANES * LINE_BITS;

  typedef struct packed {
    region_t [REGIONS-1:0]        regions;
    logic                         valid;
    logic                         write;
    logic [BYTE_ADDRESS_BITS-1:0] address;
    logic [LINE_BITS-1:0]         data;
    logic                         answer_ready;
    logic [LINE_BITS-1:0]         line;
    logic                         fold_read;
    logic [ADDRESS_BITS-1:0]      fold_read_address;
    logic                         fold_busy;
    logic                         fold_last;
    logic [LINE_BITS-1:0]         fold_sum;
  } inputs_t;

  typedef struct packed {
    logic                    empty;
    logic                    store_ready;
    event_t                  request_event;
    logic                    ready;
    logic                    answer_valid;
    error_e                  error;
    logic                    complete;
    logic [LINE_BITS-1:0]    data;
    logic                    line_read;
    logic [ADDRESS_BITS-1:0] line_read_address;
    logic                    line_write;
    logic [ADDRESS_BITS-1:0] line_write_address;
    logic [LINE_BITS-1:0]    line;
    logic                    fold_start;
    logic [ADDRESS_BITS-1:0] fold_slot0;
    logic [ADDRESS_BITS-1:0] fold_line_mask;
    logic [WINDOW_BITS-1:0]  fold_workers;
    logic                    fold_own_slot0;
    logic [LINE_BITS-1:0]    fold_own_line;
  } outputs_t;

  inputs_t in_q;
  outputs_t out, out_q;
  logic record_read, record_write;
  logic [RECORD_BITS-1:0] record_read_index, record_write_index;
  logic [STATE_BITS-1:0] record_old, record_new;

  always_ff @(posedge clk_i) begin
    in_q  <= {in_q[$bits(inputs_t)-2:0], serial_i};
    out_q <= shift_i ? {out_q[$bits(outputs_t)-2:0], 1'b0} : out;
  end
  assign serial_o = out_q[$bits(outputs_t)-1];

  nf_pipeline #(
      .PLANES (PLANES),
      .WORKERS(WORKERS),
      .REGIONS(REGIONS),
      .RECORDS(RECORDS),
      .LATENCY(LATENCY)
  ) i_pipeline (
      .clk_i,
      .rst_ni,
      .regions_i           (in_q.regions),
      .empty_o             (out.empty),
      .event_o             (out.request_event),
      .valid_i             (in_q.valid),
      .ready_o             (out.ready),
      .write_i             (in_q.write),
      .address_i           (in_q.address),
      .data_i              (in_q.data),
      .valid_o             (out.answer_valid),
      .ready_i             (in_q.answer_ready),
      .error_o             (out.error),
      .complete_o          (out.complete),
      .data_o              (out.data),
      .record_read_o       (record_read),
      .record_read_index_o (record_read_index),
      .record_i            (record_old),
      .record_write_o      (record_write),
      .record_write_index_o(record_write_index),
      .record_o            (record_new),
      .line_read_o         (out.line_read),
      .line_read_address_o (out.line_read_address),
      .line_i              (in_q.line),
      .line_write_o        (out.line_write),
      .line_write_address_o(out.line_write_address),
      .line_o              (out.line),
      .fold_start_o        (out.fold_start),
      .fold_slot0_o        (out.fold_slot0),
      .fold_line_mask_o    (out.fold_line_mask),
      .fold_workers_o      (out.fold_workers),
      .fold_own_slot0_o    (out.fold_own_slot0),
      .fold_own_line_o     (out.fold_own_line),
      .fold_read_i         (in_q.fold_read),
      .fold_read_address_i (in_q.fold_read_address),
      .fold_busy_i         (in_q.fold_busy),
      .fold_last_i         (in_q.fold_last),
      .fold_sum_i          (in_q.fold_sum)
  );

  nf_record_store #(
      .RECORDS(RECORDS),
      .BITS   (STATE_BITS)
  ) i_store (
      .clk_i,
      .rst_ni,
      .ready_o      (out.store_ready),
      .read_i       (record_read),
      .read_index_i (record_read_index),
      .record_o     (record_old),
      .write_i      (record_write),
      .write_index_i(record_write_index),
      .record_i     (record_new)
  );

endmodule
