// The five stages of docs/cxl.md. All move together or none; a request taken in cycle t is answered
// from cycle t + LATENCY on.
//
//   1  which region                      3  the record arrives; digits are decoded
//   2  which record; it is being read    4  counters and arrivals   5  answer; fp32 lines are folded
//
// A record is written as its request enters stage 5. So stages 3 and 4 may hold an older state of the
// record of stage 5, and take that one instead.
//
// LATENCY 4 leaves out the registers between 3 and 4: digits are then decoded in stage 2, and the
// record goes from the store straight into the adder.
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
    // The store of records: what is read shows in the next cycle, and stays
    output logic                                 record_read_o,
    output logic    [RECORD_BITS-1:0]            record_read_index_o,
    input  logic    [STATE_BITS-1:0]             record_i,
    output logic                                 record_write_o,
    output logic    [RECORD_BITS-1:0]            record_write_index_o,
    output logic    [STATE_BITS-1:0]             record_o,
    // The memory behind the controller, in the same way
    output logic                                 line_read_o,
    output logic    [ADDRESS_BITS-1:0]           line_read_address_o,
    input  logic    [LINE_BITS-1:0]              line_i,
    output logic                                 line_write_o,
    output logic    [ADDRESS_BITS-1:0]           line_write_address_o,
    output logic    [LINE_BITS-1:0]              line_o,
    // The adders beside: nf_fp32_fold
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

  // What a request carries from stage to stage.
  typedef struct packed {
    logic                         write;
    logic [BYTE_ADDRESS_BITS-1:0] address;
    logic                         owned;
    logic [REGION_BITS-1:0]       region;
    error_e                       error;
  } tag_t;

  typedef struct packed {
    logic [PLANES*LINE_BITS-1:0] planes;
    logic [WORKERS-1:0]          arrived;
  } counters_t;

  logic advance;
  logic [5:1] valid_q;

  assign ready_o = advance;
  assign empty_o = valid_q == '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (advance)
      valid_q <= (LATENCY == 5) ? {valid_q[4:1], valid_i}
                                : {valid_q[3], 1'b0, valid_q[2:1], valid_i};
  end

  // Stage 1
  logic write1_q;
  logic [BYTE_ADDRESS_BITS-1:0] address1_q;
  logic [LINE_BITS-1:0] data1_q;
  tag_t tag1;
  logic [ADDRESS_BITS-1:0] offset1;

  always_ff @(posedge clk_i)
    if (advance) begin
      write1_q   <= write_i;
      address1_q <= address_i;
      data1_q    <= data_i;
    end

  assign tag1.write   = write1_q;
  assign tag1.address = address1_q;
  nf_region_lookup #(
      .REGIONS(REGIONS)
  ) i_region_lookup (
      .regions_i,
      .address_i(address1_q),
      .owned_o  (tag1.owned),
      .region_o (tag1.region),
      .offset_o (offset1),
      .error_o  (tag1.error)
  );

  // Stage 2
  tag_t tag2_q, tag2;
  logic [ADDRESS_BITS-1:0] offset2_q, line2;
  logic [LINE_BITS-1:0] data2_q;
  logic [WINDOW_BITS-1:0] window2;
  logic [RECORD_BITS-1:0] index2;
  error_e error2;
  region_t region2;

  always_ff @(posedge clk_i)
    if (advance) begin
      tag2_q    <= tag1;
      offset2_q <= offset1;
      data2_q   <= data1_q;
    end

  assign region2 = regions_i[tag2_q.region];
  nf_window_lookup #(
      .RECORD_BITS(RECORD_BITS)
  ) i_window_lookup (
      .region_i(region2),
      .write_i (tag2_q.write),
      .offset_i(offset2_q),
      .error_i (tag2_q.error),
      .window_o(window2),
      .line_o  (line2),
      .record_o(index2),
      .error_o (error2)
  );
  always_comb begin
    tag2       = tag2_q;
    tag2.error = error2;
  end

  assign record_read_o       = advance;
  assign record_read_index_o = index2;

  // Digits are decoded in stage 3, or in stage 2 where the adder is there.
  logic [LINE_BITS-1:0] data3_q, digit0_3, digit1_3;
  logic bad_digits3;
  region_t region3;

  if (LATENCY == 5) begin : gen_decode
    always_ff @(posedge clk_i) if (advance) data3_q <= data2_q;
    nf_digit_decoder i_digits (
        .ternary_i(region3.mode == MODE_G_TERNARY),
        .line_i   (data3_q),
        .digit0_o (digit0_3),
        .digit1_o (digit1_3),
        .bad_o    (bad_digits3)
    );
  end else begin : gen_decode_early
    logic [LINE_BITS-1:0] digit0_2, digit1_2, digit1_3_q;
    logic bad_digits2, bad_digits3_q;
    nf_digit_decoder i_digits (
        .ternary_i(region2.mode == MODE_G_TERNARY),
        .line_i   (data2_q),
        .digit0_o (digit0_2),
        .digit1_o (digit1_2),
        .bad_o    (bad_digits2)
    );
    always_ff @(posedge clk_i)
      if (advance) begin
        data3_q       <= digit0_2;
        digit1_3_q    <= digit1_2;
        bad_digits3_q <= bad_digits2;
      end
    assign digit0_3    = data3_q;
    assign digit1_3    = digit1_3_q;
    assign bad_digits3 = bad_digits3_q;
  end

  // Stage 3
  tag_t tag3_q;
  logic [ADDRESS_BITS-1:0] line3_q, slot0_3;
  logic [WINDOW_BITS-1:0] window3_q;
  logic [RECORD_BITS-1:0] index3_q;
  logic [WORKERS-1:0] who3;
  logic fresh3, forward3;
  logic [GENERATION_BITS-1:0] generation3;
  counters_t counters3;
  // Stage 5's record, wanted by 3 and 4
  counters_t counters5_q;
  logic [RECORD_BITS-1:0] index5_q;
  logic kept5_q;

  always_ff @(posedge clk_i)
    if (advance) begin
      tag3_q    <= tag2;
      line3_q   <= line2;
      window3_q <= window2;
      index3_q  <= index2;
    end

  assign region3  = regions_i[tag3_q.region];
  assign slot0_3  = region3.base + line3_q;
  assign forward3 = valid_q[5] && kept5_q && index5_q == index3_q;
  assign {generation3, counters3.arrived, counters3.planes} = record_i;
  assign fresh3 = generation3 == region3.generation;
  always_comb begin
    who3 = '0;
    for (int unsigned w = 0; w < WORKERS; w++)
      who3[w] = window3_q == WINDOW_BITS'(w) && window3_q < region3.workers;
  end

  // Stage 4
  tag_t tag4;
  logic [ADDRESS_BITS-1:0] slot0_4;
  logic [WINDOW_BITS-1:0] window4;
  logic [RECORD_BITS-1:0] index4;
  logic [LINE_BITS-1:0] digit0_4, digit1_4, plane4;
  logic [WORKERS-1:0] who4;
  logic bad_digits4, fresh4, forward4, complete4, last_valid, keeps4;
  logic [3:0] result4;
  counters_t counters4, latest4, next4;
  region_t region4;
  error_e error4;

  if (LATENCY == 5) begin : gen_stage4
    tag_t tag4_q;
    logic [ADDRESS_BITS-1:0] slot0_4_q;
    logic [WINDOW_BITS-1:0] window4_q;
    logic [RECORD_BITS-1:0] index4_q;
    logic [LINE_BITS-1:0] digit0_4_q, digit1_4_q;
    logic [WORKERS-1:0] who4_q;
    logic bad_digits4_q, fresh4_q;
    counters_t counters4_q;
    always_ff @(posedge clk_i)
      if (advance) begin
        tag4_q        <= tag3_q;
        slot0_4_q     <= slot0_3;
        window4_q     <= window3_q;
        index4_q      <= index3_q;
        digit0_4_q    <= digit0_3;
        digit1_4_q    <= digit1_3;
        who4_q        <= who3;
        bad_digits4_q <= bad_digits3;
        fresh4_q      <= fresh3 || forward3;
        counters4_q   <= forward3 ? counters5_q : counters3;
      end
    assign tag4 = tag4_q;
    assign slot0_4 = slot0_4_q;
    assign window4 = window4_q;
    assign index4 = index4_q;
    assign digit0_4 = digit0_4_q;
    assign digit1_4 = digit1_4_q;
    assign who4 = who4_q;
    assign bad_digits4 = bad_digits4_q;
    assign fresh4 = fresh4_q;
    assign counters4 = counters4_q;
    assign forward4 = valid_q[5] && kept5_q && index5_q == index4;
    assign last_valid = valid_q[4];
  end else begin : gen_no_stage4
    assign tag4 = tag3_q;
    assign slot0_4 = slot0_3;
    assign window4 = window3_q;
    assign index4 = index3_q;
    assign digit0_4 = digit0_3;
    assign digit1_4 = digit1_3;
    assign who4 = who3;
    assign bad_digits4 = bad_digits3;
    assign fresh4 = fresh3;
    assign counters4 = counters3;
    assign forward4 = forward3;
    assign last_valid = valid_q[3];
  end

  assign region4 = regions_i[tag4.region];
  assign latest4 = forward4 ? counters5_q : counters4 & {$bits(counters_t){fresh4}};
  assign result4 = 4'(window4 - region4.workers);
  nf_record_update #(
      .PLANES (PLANES),
      .WORKERS(WORKERS)
  ) i_update (
      .write_i     (tag4.write),
      .mode_i      (region4.mode),
      .who_i       (who4),
      .everyone_i  (region4.everyone[WORKERS-1:0]),
      .plane_i     (result4),
      .digit0_i    (digit0_4),
      .digit1_i    (digit1_4),
      .bad_digits_i(bad_digits4),
      .error_i     (tag4.error),
      .arrived_i   (latest4.arrived),
      .planes_i    (latest4.planes),
      .arrived_o   (next4.arrived),
      .planes_o    (next4.planes),
      .plane_o     (plane4),
      .complete_o  (complete4),
      .error_o     (error4)
  );
  assign keeps4 = last_valid && tag4.write && error4 == ERROR_OK;

  // Bytes are kept in the memory behind; it is read as a request enters stage 5.
  logic bytes4, fold4;
  assign bytes4 = region4.mode == MODE_IDENTITY || region4.mode == MODE_FP32;
  assign fold4  = advance && keeps4 && complete4 && region4.mode == MODE_FP32
                  && region4.workers > WINDOW_BITS'(1);
  assign line_write_o         = advance && keeps4 && bytes4;
  assign line_write_address_o = tag4.address[BYTE_ADDRESS_BITS-1-:ADDRESS_BITS];
  assign line_o               = digit0_4;

  // Stage 5
  tag_t tag5_q;
  logic complete5_q, from_memory5_q, own_slot0_5_q;
  logic [LINE_BITS-1:0] line5_q;
  region_t region5;

  always_ff @(posedge clk_i) begin
    if (advance) begin
      tag5_q         <= tag4;
      tag5_q.error   <= error4;
      complete5_q    <= complete4;
      from_memory5_q <= region4.mode == MODE_IDENTITY;
      own_slot0_5_q  <= window4 == '0;
      index5_q       <= index4;
      kept5_q        <= keeps4;
      counters5_q    <= next4;
      line5_q        <= tag4.write ? digit0_4 : plane4;
    end
    if (fold_last_i) counters5_q.planes[LINE_BITS-1:0] <= fold_sum_i;
  end

  assign region5 = regions_i[tag5_q.region];
  assign fold_start_o     = fold4;
  assign fold_slot0_o     = slot0_4;
  assign fold_line_mask_o = region4.line_mask;
  assign fold_workers_o   = region4.workers;
  assign fold_own_slot0_o = own_slot0_5_q;
  assign fold_own_line_o  = line5_q;

  assign valid_o    = valid_q[5] && !fold_busy_i;
  assign advance    = !valid_q[5] || (valid_o && ready_i);
  assign error_o    = tag5_q.error;
  assign complete_o = complete5_q;
  always_comb begin
    if (tag5_q.write || tag5_q.error != ERROR_OK) data_o = '0;
    else data_o = from_memory5_q ? line_i : line5_q;
  end

  assign line_read_o         = fold_read_i || (advance && last_valid && bytes4);
  assign line_read_address_o = fold_read_i ? fold_read_address_i
                             : tag4.write ? slot0_4 : line_write_address_o;

  // The record is written as its request enters stage 5, and a folded sum as it is done.
  assign record_write_o       = fold_last_i || (advance && keeps4);
  assign record_write_index_o = fold_last_i ? index5_q : index4;
  always_comb begin
    record_o = {region4.generation, next4.arrived, next4.planes};
    if (fold_last_i) begin
      record_o[LINE_BITS-1:0] = fold_sum_i;
      record_o[PLANES*LINE_BITS+:WORKERS] = counters5_q.arrived;
      record_o[PLANES*LINE_BITS+WORKERS+:GENERATION_BITS] = region5.generation;
    end
  end

  assign event_o.valid    = valid_q[5] && advance;
  assign event_o.owned    = tag5_q.owned;
  assign event_o.region   = 8'(tag5_q.region);
  assign event_o.error    = tag5_q.error;
  assign event_o.complete = complete5_q;
  assign event_o.address  = tag5_q.address;

endmodule
