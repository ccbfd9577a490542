// Stage 4: one request on one record. Counts a worker's digits or reads a plane, and detects errors.
// If error_o is set, all other outputs must be discarded.
//
// A carry out of the last plane cannot happen with the number of workers that a region may have. It
// is reported one stage later, for eight lanes at a time, since waiting for it here would be the
// longest path.
//
// The adder runs in every mode. fp32 and identity read no counters. In an fp32 region of one worker
// the line is added to counters of zero and so becomes plane 0, which is its sum.
module nf_record_update
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES = 8,
    parameter int unsigned WORKERS = 64
) (
    input  logic                        write_i,
    input  mode_e                       mode_i,
    input  logic [WORKERS-1:0]          who_i,       // the worker, one-hot; zero for a result
    input  logic [WORKERS-1:0]          everyone_i,
    input  logic [3:0]                  plane_i,     // the result window to read
    input  logic [LINE_BITS-1:0]        digit0_i,
    input  logic [LINE_BITS-1:0]        digit1_i,
    input  logic                        bad_digits_i,
    input  error_e                      error_i,     // of the look-up; takes priority
    input  logic [WORKERS-1:0]          arrived_i,
    input  logic [PLANES*LINE_BITS-1:0] planes_i,
    output logic [WORKERS-1:0]          arrived_o,
    output logic [PLANES*LINE_BITS-1:0] planes_o,
    output logic [LINE_BITS-1:0]        plane_o,
    output logic [LINE_BITS/8-1:0]      carry_o,
    output logic                        complete_o,
    output error_e                      error_o
);

  logic [LINE_BITS-1:0] carry;
  logic counting, present, everyone_before, everyone_after;

  nf_count_adder #(
      .LANES (LINE_BITS),
      .PLANES(PLANES)
  ) i_adder (
      .counts_i(planes_i),
      .digit0_i,
      .digit1_i,
      .counts_o(planes_o),
      .carry_o (carry)
  );

  assign counting        = mode_i == MODE_G_BINARY || mode_i == MODE_G_TERNARY;
  assign arrived_o       = arrived_i | who_i;
  assign present         = |(arrived_i & who_i);
  assign everyone_before = arrived_i == everyone_i;
  assign everyone_after  = arrived_o == everyone_i;

  always_comb begin
    for (int unsigned i = 0; i < LINE_BITS / 8; i++) carry_o[i] = counting && |carry[8*i+:8];
  end

  always_comb begin
    plane_o = '0;
    for (int unsigned k = 0; k < PLANES; k++)
      if (plane_i == 4'(k)) plane_o = plane_o | planes_i[k*LINE_BITS+:LINE_BITS];
  end

  always_comb begin
    if (error_i != ERROR_OK) error_o = error_i;
    else if (!write_i && (mode_i == MODE_IDENTITY ? !present : !everyone_before))
      error_o = ERROR_NOT_COMPLETE;
    else if (write_i && present) error_o = ERROR_DUPLICATE;
    else if (write_i && bad_digits_i) error_o = ERROR_BAD_DIGITS;
    else error_o = ERROR_OK;
  end

  assign complete_o = write_i && everyone_after && error_o == ERROR_OK;

endmodule
