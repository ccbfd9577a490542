// The five stages of docs/cxl.md. All advance together or none does; a request taken in cycle t is
// answered from cycle t + LATENCY on.
//
//   1  look up the region                3  the record arrives; digits are decoded
//   2  look up and read the record       4  counters and arrivals   5  answer; fp32 lines are folded
//
// The write that completes an fp32 line is answered like any other and stays in stage 5 until its sum
// is computed.
//
// A record is written when its request enters stage 5. Stages 3 and 4 may therefore hold an older
// state of the record in stage 5; they use the forwarded one instead.
//
// LATENCY 4 omits the registers between stages 3 and 4: digits are decoded in stage 2, and the record
// goes from the store directly into the adder.
module nf_pipeline
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES = 8,
    parameter int unsigned WORKERS = 64,
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORDS = 512,
    parameter int unsigned LATENCY = 5,
    localparam int unsigned RECORD_BITS = RECORDS > 1 ? $clog2(RECORDS) : 1,
    localparam int unsigned STATE_BITS = GENERATION_BITS + WORKERS + PLANES * LINE_BITS
) (
    input  logic                                 clk_i,
    input  logic                                 rst_ni,
    input  region_t [REGIONS-1:0]                regions_i,
    output logic                                 empty_o,
    output event_t                               event_o,
    // Requests
    input  logic                                 valid_i,
    output logic                                 ready_o,
    input  logic                                 write_i,
    input  logic    [BYTE_ADDRESS_BITS-1:0]      address_i,
    input  logic    [LINE_BITS-1:0]              data_i,
    // Answers
    output logic                                 valid_o,
    input  logic                                 ready_i,
    output error_e                               error_o,
    output logic                                 complete_o,
    output logic    [LINE_BITS-1:0]              data_o,
    // The store of records: read data appear in the next cycle and stay until the next read
    output logic                                 record_read_o,
    output logic    [RECORD_BITS-1:0]            record_read_index_o,
    input  logic    [STATE_BITS-1:0]             record_i,
    output logic                                 record_write_o,
    output logic    [RECORD_BITS-1:0]            record_write_index_o,
    output logic    [STATE_BITS-1:0]             record_o,
    // The backing memory, with the same timing
    output logic                                 line_read_o,
    output logic    [ADDRESS_BITS-1:0]           line_read_address_o,
    input  logic    [LINE_BITS-1:0]              line_i,
    output logic                                 line_write_o,
    output logic    [ADDRESS_BITS-1:0]           line_write_address_o,
    output logic    [LINE_BITS-1:0]              line_o,
    // The FP32 adders: nf_fp32_fold
    output logic                                 fold_start_o,
    output logic    [ADDRESS_BITS-1:0]           fold_slot0_o,
    output logic    [ADDRESS_BITS-1:0]           fold_line_mask_o,
    output logic    [WINDOW_BITS-1:0]            fold_workers_o,
    output logic                                 fold_own_slot0_o,
    output logic    [LINE_BITS-1:0]              fold_own_line_o,
    input  logic                                 fold_read_i,
    input  logic    [ADDRESS_BITS-1:0]           fold_read_address_i,
    input  logic                                 fold_busy_i,
    input  logic                                 fold_last_i,
    input  logic    [LINE_BITS-1:0]              fold_sum_i
);

  localparam int unsigned REGION_BITS = REGIONS > 1 ? $clog2(REGIONS) : 1;

  typedef struct packed {
    logic [PLANES*LINE_BITS-1:0] planes;
    logic [WORKERS-1:0]          arrived;
  } counters_t;

  // The input of stage 4.
  typedef struct packed {
    tag_t                    tag;
    logic [ADDRESS_BITS-1:0] slot0;       // address of worker 0's line
    logic [WINDOW_BITS-1:0]  window;
    logic [RECORD_BITS-1:0]  index;
    logic [LINE_BITS-1:0]    digit0;      // or the bytes of the line
    logic [LINE_BITS-1:0]    digit1;
    logic                    bad_digits;
    logic [WORKERS-1:0]      who;         // the worker, one-hot
    logic                    fresh;       // the record has this generation
    counters_t               counters;
  } work_t;

  logic advance, answered5_q;
  logic [5:1] valid_q;

  assign ready_o = advance;
  assign empty_o = valid_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q     <= '0;
      answered5_q <= 1'b0;
    end else if (advance) begin
      valid_q     <= (LATENCY == 5) ? {valid_q[4:1], valid_i}
                                    : {valid_q[3], 1'b0, valid_q[2:1], valid_i};
      answered5_q <= 1'b0;
    end else if (valid_o && ready_i) answered5_q <= 1'b1;
  end

  // Stages 1 and 2
  tag_t tag2;
  logic [WINDOW_BITS-1:0] window2;
  logic [ADDRESS_BITS-1:0] line2;
  logic [LINE_BITS-1:0] data2;
  logic ternary2;

  nf_lookup #(
      .REGIONS    (REGIONS),
      .RECORD_BITS(RECORD_BITS)
  ) i_lookup (
      .clk_i,
      .advance_i(advance),
      .regions_i,
      .write_i,
      .address_i,
      .data_i,
      .tag_o    (tag2),
      .window_o (window2),
      .line_o   (line2),
      .record_o (record_read_index_o),
      .ternary_o(ternary2),
      .data_o   (data2)
  );
  assign record_read_o = advance;

  // Stage 3
  work_t work3;
  tag_t tag3_q;
  logic [WINDOW_BITS-1:0] window3_q;
  logic [RECORD_BITS-1:0] index3_q;
  logic [ADDRESS_BITS-1:0] line3_q;
  logic [LINE_BITS-1:0] digit0_3, digit1_3;
  logic bad_digits3, forward3, of_worker3;
  region_t region3;
  // Forwarding of stage 5's record to stages 3 and 4
  counters_t counters5_q;
  logic [RECORD_BITS-1:0] index5_q;
  logic kept5_q;

  always_ff @(posedge clk_i)
    if (advance) begin
      tag3_q    <= tag2;
      window3_q <= window2;
      index3_q  <= record_read_index_o;
      line3_q   <= line2;
    end

  // Digits are decoded here, or one stage earlier if LATENCY is 4.
  if (LATENCY == 5) begin : gen_decode
    logic ternary3_q;
    logic [LINE_BITS-1:0] data3_q;
    always_ff @(posedge clk_i)
      if (advance) begin
        ternary3_q <= ternary2;
        data3_q    <= data2;
      end
    nf_digit_decoder i_digits (
        .ternary_i(ternary3_q),
        .line_i   (data3_q),
        .digit0_o (digit0_3),
        .digit1_o (digit1_3),
        .bad_o    (bad_digits3)
    );
  end else begin : gen_decode_early
    logic [LINE_BITS-1:0] digit0_2, digit1_2;
    logic bad_digits2;
    nf_digit_decoder i_digits (
        .ternary_i(ternary2),
        .line_i   (data2),
        .digit0_o (digit0_2),
        .digit1_o (digit1_2),
        .bad_o    (bad_digits2)
    );
    always_ff @(posedge clk_i)
      if (advance) begin
        digit0_3    <= digit0_2;
        digit1_3    <= digit1_2;
        bad_digits3 <= bad_digits2;
      end
  end

  assign region3  = regions_i[tag3_q.region[REGION_BITS-1:0]];
  assign forward3 = valid_q[5] && kept5_q && index5_q == index3_q;
  assign of_worker3 = window3_q < region3.workers;
  always_comb begin
    logic [GENERATION_BITS-1:0] generation3;
    work3.tag        = tag3_q;
    // Worker windows are written and results read; only identity can read worker windows back.
    if (tag3_q.error == ERROR_OK && tag3_q.write != of_worker3
        && !(of_worker3 && region3.mode == MODE_IDENTITY))
      work3.tag.error = ERROR_WRONG_MODE;
    work3.slot0      = region3.base + line3_q;
    work3.window     = window3_q;
    work3.index      = index3_q;
    work3.digit0     = digit0_3;
    work3.digit1     = digit1_3;
    work3.bad_digits = bad_digits3;
    for (int unsigned w = 0; w < WORKERS; w++)
      work3.who[w] = window3_q == WINDOW_BITS'(w) && of_worker3;
    {generation3, work3.counters.arrived, work3.counters.planes} = record_i;
    work3.fresh = generation3 == region3.generation;
  end

  // Stage 4
  work_t work4;
  logic valid4, forward4, complete4, keeps4, bytes4, fold4;
  logic [3:0] result4;
  logic [LINE_BITS-1:0] plane4;
  logic [LINE_BITS/8-1:0] carry4, carry5_q;
  counters_t latest4, next4;
  region_t region4;
  error_e error4;

  if (LATENCY == 5) begin : gen_stage4
    work_t work4_q;
    logic same45_q;  // the records of stages 4 and 5 are the same
    always_ff @(posedge clk_i)
      if (advance) begin
        same45_q         <= work3.index == work4.index;
        work4_q          <= work3;
        work4_q.fresh    <= work3.fresh || forward3;
        work4_q.counters <= forward3 ? counters5_q : work3.counters;
      end
    assign work4    = work4_q;
    assign valid4   = valid_q[4];
    assign forward4 = valid_q[5] && kept5_q && same45_q;
  end else begin : gen_no_stage4
    assign work4    = work3;
    assign valid4   = valid_q[3];
    assign forward4 = forward3;
  end

  assign region4 = regions_i[work4.tag.region[REGION_BITS-1:0]];
  assign latest4 = forward4 ? counters5_q : work4.counters & {$bits(counters_t) {work4.fresh}};
  assign result4 = 4'(work4.window - region4.workers);
  nf_record_update #(
      .PLANES (PLANES),
      .WORKERS(WORKERS)
  ) i_update (
      .write_i     (work4.tag.write),
      .mode_i      (region4.mode),
      .who_i       (work4.who),
      .everyone_i  (region4.everyone[WORKERS-1:0]),
      .plane_i     (result4),
      .digit0_i    (work4.digit0),
      .digit1_i    (work4.digit1),
      .bad_digits_i(work4.bad_digits),
      .error_i     (work4.tag.error),
      .arrived_i   (latest4.arrived),
      .planes_i    (latest4.planes),
      .arrived_o   (next4.arrived),
      .planes_o    (next4.planes),
      .plane_o     (plane4),
      .carry_o     (carry4),
      .complete_o  (complete4),
      .error_o     (error4)
  );
  assign keeps4 = valid4 && work4.tag.write && error4 == ERROR_OK;

  // Bytes are kept in the backing memory, which is read when a request enters stage 5.
  assign bytes4 = region4.mode == MODE_IDENTITY || region4.mode == MODE_FP32;
  assign fold4  = advance && keeps4 && complete4 && region4.mode == MODE_FP32
                  && region4.workers > WINDOW_BITS'(1);
  assign line_write_o         = advance && keeps4 && bytes4;
  assign line_write_address_o = work4.tag.address[BYTE_ADDRESS_BITS-1-:ADDRESS_BITS];
  assign line_o               = work4.digit0;

  // Stage 5
  tag_t tag5_q;
  logic complete5_q, from_memory5_q, own_slot0_5_q, overflow5;
  logic [LINE_BITS-1:0] line5_q;
  region_t region5;

  always_ff @(posedge clk_i) begin
    if (advance) begin
      tag5_q         <= work4.tag;
      tag5_q.error   <= error4;
      complete5_q    <= complete4;
      from_memory5_q <= region4.mode == MODE_IDENTITY;
      own_slot0_5_q  <= work4.window == '0;
      index5_q       <= work4.index;
      kept5_q        <= keeps4;
      counters5_q    <= next4;
      carry5_q       <= carry4;
      line5_q        <= work4.tag.write ? work4.digit0 : plane4;
    end
    if (fold_last_i) counters5_q.planes[LINE_BITS-1:0] <= fold_sum_i;
  end

  assign fold_start_o     = fold4;
  assign fold_slot0_o     = work4.slot0;
  assign fold_line_mask_o = region4.line_mask;
  assign fold_workers_o   = region4.workers;
  assign fold_own_slot0_o = own_slot0_5_q;
  assign fold_own_line_o  = line5_q;

  assign valid_o    = valid_q[5] && !answered5_q;
  assign advance    = !valid_q[5] || ((answered5_q || ready_i) && !fold_busy_i);
  assign overflow5  = kept5_q && carry5_q != '0;
  assign error_o    = overflow5 ? ERROR_OVERFLOW : tag5_q.error;
  assign complete_o = complete5_q && !overflow5;
  always_comb begin
    if (tag5_q.write || tag5_q.error != ERROR_OK) data_o = '0;
    else data_o = from_memory5_q ? line_i : line5_q;
  end

  assign line_read_o         = fold_read_i || (advance && valid4 && bytes4);
  assign line_read_address_o = fold_read_i ? fold_read_address_i
                             : work4.tag.write ? work4.slot0 : line_write_address_o;

  // The record is written when its request enters stage 5, a folded sum when it is done.
  assign region5              = regions_i[tag5_q.region[REGION_BITS-1:0]];
  assign record_write_o       = fold_last_i || (advance && keeps4);
  assign record_write_index_o = fold_last_i ? index5_q : work4.index;
  always_comb begin
    record_o = {region4.generation, next4.arrived, next4.planes};
    if (fold_last_i) begin
      record_o[LINE_BITS-1:0] = fold_sum_i;
      record_o[PLANES*LINE_BITS+:WORKERS] = counters5_q.arrived;
      record_o[PLANES*LINE_BITS+WORKERS+:GENERATION_BITS] = region5.generation;
    end
  end

  assign event_o.valid    = valid_o && ready_i;
  assign event_o.complete = complete_o;
  always_comb begin
    event_o.tag       = tag5_q;
    event_o.tag.error = error_o;
  end

endmodule
