// The memory-side reducer of docs/cxl.md: pipeline, FP32 adders, registers, store of records. The
// backing memory, which holds the lines of fp32 and identity, is a port of 64 bytes that answers in
// the next cycle: on a controller its buffer of open rows, in the testbench a table.
module nf_reducer
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES = 8,
    parameter int unsigned WORKERS = 64,
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORDS = 512,
    parameter int unsigned LATENCY = 5,
    parameter logic [GENERATION_BITS-1:0] LAST_GENERATION = '1,
    parameter logic [31:0] MAX_ERRORS = '1
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    // Requests
    input  logic                         valid_i,
    output logic                         ready_o,
    input  logic                         write_i,
    input  logic [BYTE_ADDRESS_BITS-1:0] address_i,
    input  logic [LINE_BITS-1:0]         data_i,
    // Answers, in the order of the requests
    output logic                         valid_o,
    input  logic                         ready_i,
    output logic [3:0]                   error_o,
    output logic                         complete_o,
    output logic [LINE_BITS-1:0]         data_o,
    // Registers
    input  logic                         register_valid_i,
    output logic                         register_ready_o,
    input  logic                         register_write_i,
    input  logic [15:0]                  register_address_i,
    input  logic [63:0]                  register_data_i,
    output logic                         register_valid_o,
    input  logic                         register_ready_i,
    output logic [3:0]                   register_error_o,
    output logic [63:0]                  register_data_o,
    // The backing memory
    output logic                         line_read_o,
    output logic [ADDRESS_BITS-1:0]      line_read_address_o,
    input  logic [LINE_BITS-1:0]         line_i,
    output logic                         line_write_o,
    output logic [ADDRESS_BITS-1:0]      line_write_address_o,
    output logic [LINE_BITS-1:0]         line_o
);

  localparam int unsigned RECORD_BITS = RECORDS > 1 ? $clog2(RECORDS) : 1;
  localparam int unsigned STATE_BITS = GENERATION_BITS + WORKERS + PLANES * LINE_BITS;

  region_t [REGIONS-1:0] regions;
  event_t request_event;
  logic empty, registers_busy, pipeline_ready, store_ready;
  logic record_read, record_write;
  logic [RECORD_BITS-1:0] record_read_index, record_write_index;
  logic [STATE_BITS-1:0] record_old, record_new;
  error_e request_error, access_error;
  logic fold_start, fold_own_slot0, fold_read, fold_busy, fold_last;
  logic [ADDRESS_BITS-1:0] fold_slot0, fold_line_mask, fold_read_address;
  logic [WINDOW_BITS-1:0] fold_workers;
  logic [LINE_BITS-1:0] fold_own_line, fold_sum;

  // Registers change only between requests: a waiting access blocks new requests. After a reset an
  // access waits for the store. Requests need not: no region is enabled, so all are rejected.
  assign ready_o = pipeline_ready && !registers_busy;
  assign error_o = request_error;
  assign register_error_o = access_error;

  nf_pipeline #(
      .PLANES (PLANES),
      .WORKERS(WORKERS),
      .REGIONS(REGIONS),
      .RECORDS(RECORDS),
      .LATENCY(LATENCY)
  ) i_pipeline (
      .clk_i,
      .rst_ni,
      .regions_i           (regions),
      .empty_o             (empty),
      .event_o             (request_event),
      .valid_i             (valid_i && !registers_busy),
      .ready_o             (pipeline_ready),
      .write_i,
      .address_i,
      .data_i,
      .valid_o,
      .ready_i,
      .error_o             (request_error),
      .complete_o,
      .data_o,
      .record_read_o       (record_read),
      .record_read_index_o (record_read_index),
      .record_i            (record_old),
      .record_write_o      (record_write),
      .record_write_index_o(record_write_index),
      .record_o            (record_new),
      .line_read_o,
      .line_read_address_o,
      .line_i,
      .line_write_o,
      .line_write_address_o,
      .line_o,
      .fold_start_o        (fold_start),
      .fold_slot0_o        (fold_slot0),
      .fold_line_mask_o    (fold_line_mask),
      .fold_workers_o      (fold_workers),
      .fold_own_slot0_o    (fold_own_slot0),
      .fold_own_line_o     (fold_own_line),
      .fold_read_i         (fold_read),
      .fold_read_address_i (fold_read_address),
      .fold_busy_i         (fold_busy),
      .fold_last_i         (fold_last),
      .fold_sum_i          (fold_sum)
  );

  nf_fp32_fold i_fold (
      .clk_i,
      .rst_ni,
      .start_i       (fold_start),
      .slot0_i       (fold_slot0),
      .line_mask_i   (fold_line_mask),
      .workers_i     (fold_workers),
      .own_slot0_i   (fold_own_slot0),
      .own_line_i    (fold_own_line),
      .read_o        (fold_read),
      .read_address_o(fold_read_address),
      .line_i,
      .busy_o        (fold_busy),
      .last_o        (fold_last),
      .sum_o         (fold_sum)
  );

  nf_record_store #(
      .RECORDS(RECORDS),
      .BITS   (STATE_BITS)
  ) i_store (
      .clk_i,
      .rst_ni,
      .ready_o      (store_ready),
      .read_i       (record_read),
      .read_index_i (record_read_index),
      .record_o     (record_old),
      .write_i      (record_write),
      .write_index_i(record_write_index),
      .record_i     (record_new)
  );

  nf_registers #(
      .PLANES         (PLANES),
      .WORKERS        (WORKERS),
      .REGIONS        (REGIONS),
      .RECORDS        (RECORDS),
      .LAST_GENERATION(LAST_GENERATION),
      .MAX_ERRORS    (MAX_ERRORS)
  ) i_registers (
      .clk_i,
      .rst_ni,
      .open_i   (empty && store_ready),
      .busy_o   (registers_busy),
      .regions_o(regions),
      .event_i  (request_event),
      .valid_i  (register_valid_i),
      .ready_o  (register_ready_o),
      .write_i  (register_write_i),
      .address_i(register_address_i),
      .data_i   (register_data_i),
      .valid_o  (register_valid_o),
      .ready_i  (register_ready_i),
      .error_o  (access_error),
      .data_o   (register_data_o)
  );

endmodule
