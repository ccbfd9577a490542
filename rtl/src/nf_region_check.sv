// Checks whether a region may be enabled, and computes the pipeline's view of it. Takes three cycles
// from start_i to done_o, to spread the shifts and long additions; it runs once per reduction.
module nf_region_check
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES  = 8,
    parameter int unsigned WORKERS = 64,
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORDS = 512
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    input  logic                  start_i,
    input  config_t               config_i,   // does not change until done_o
    input  logic                  enabled_i,  // already enabled
    input  logic                  exhausted_i,
    input  region_t [REGIONS-1:0] regions_i,
    output logic                  done_o,     // for one cycle, in which the other outputs are valid
    output error_e                error_o,
    output region_t               region_o    // without its generation
);

  localparam int unsigned COUNT_BITS = 7;  // of workers, up to 64

  // First cycle: each field on its own.
  logic [COUNT_BITS-1:0] workers;
  logic [3:0] width, planes;
  logic [WINDOW_BITS-1:0] windows_d, windows_q;
  error_e field_error_d, field_error_q;
  mode_e mode;

  assign mode    = mode_e'(config_i.mode[1:0]);
  assign workers = config_i.workers[COUNT_BITS-1:0];
  always_comb begin
    width = '0;
    for (int unsigned i = 0; i < COUNT_BITS; i++) if (workers[i]) width = 4'(i + 1);
    unique case (mode)
      MODE_G_BINARY:  planes = width;
      MODE_G_TERNARY: planes = width + 4'd1;
      default:        planes = '0;
    endcase
    windows_d = WINDOW_BITS'(workers) + (mode == MODE_FP32 ? WINDOW_BITS'(1) : WINDOW_BITS'(planes));

    if (enabled_i) field_error_d = ERROR_LOCKED;
    else if (config_i.mode > 64'd3) field_error_d = ERROR_WRONG_MODE;
    else if (config_i.workers == '0 || config_i.workers > 64'(WORKERS) || planes > 4'(PLANES))
      field_error_d = ERROR_TOO_MANY_WORKERS;
    else if (config_i.base[5:0] != '0) field_error_d = ERROR_MISALIGNED;
    else if (config_i.stride > 64'd47 || config_i.stride < 64'd6 || config_i.length == '0
             || config_i.base[63:BYTE_ADDRESS_BITS] != '0)
      field_error_d = ERROR_OUT_OF_RANGE;
    else field_error_d = ERROR_OK;
  end

  // Second cycle: sizes.
  logic [5:0] shift;
  logic [ADDRESS_BITS-1:0] base, line_mask_d, line_mask_q;
  logic [ADDRESS_BITS+WINDOW_BITS-1:0] beyond_d, beyond_q;
  logic [64:0] store_end_d, store_end_q;
  logic too_long_d, too_long_q;

  assign shift       = 6'(config_i.stride - 64'd6);
  assign base        = config_i.base[BYTE_ADDRESS_BITS-1-:ADDRESS_BITS];
  assign line_mask_d = (ADDRESS_BITS'(1) << shift) - 1'b1;
  assign beyond_d    = {WINDOW_BITS'(0), base} + ({ADDRESS_BITS'(0), windows_q} << shift);
  assign store_end_d = {1'b0, config_i.store} + {1'b0, config_i.length};
  assign too_long_d  = config_i.length - 1'b1 > {22'd0, line_mask_d};

  // Third cycle: against the other regions.
  logic overlap;
  always_comb begin
    logic lines, records;
    overlap = 1'b0;
    for (int unsigned r = 0; r < REGIONS; r++) begin
      lines = base < regions_i[r].beyond[ADDRESS_BITS-1:0] || regions_i[r].beyond[ADDRESS_BITS];
      lines = lines && {{WINDOW_BITS{1'b0}}, regions_i[r].base} < beyond_q;
      records = config_i.store < 64'(regions_i[r].store) + 64'(regions_i[r].length)
                && {33'd0, regions_i[r].store} < store_end_q;
      overlap = overlap || (regions_i[r].enabled && (lines || records));
    end
  end

  always_comb begin
    if (field_error_q != ERROR_OK) error_o = field_error_q;
    else if (too_long_q || beyond_q > {WINDOW_BITS'(1), ADDRESS_BITS'(0)}
             || store_end_q > 65'(RECORDS))
      error_o = ERROR_OUT_OF_RANGE;
    else if (overlap) error_o = ERROR_OVERLAP;
    else if (exhausted_i) error_o = ERROR_EXHAUSTED;
    else error_o = ERROR_OK;
  end

  always_comb begin
    region_o           = '0;
    region_o.enabled   = 1'b1;
    region_o.mode      = mode;
    region_o.workers   = WINDOW_BITS'(workers);
    region_o.base      = base;
    region_o.beyond    = beyond_q[ADDRESS_BITS:0];
    region_o.length    = config_i.length[ADDRESS_BITS-1:0];
    region_o.line_mask = line_mask_q;
    region_o.shift     = shift;
    region_o.store     = config_i.store[31:0];
    for (int unsigned w = 0; w < 2 ** WORKER_BITS; w++)
      region_o.everyone[w] = COUNT_BITS'(w) < workers;
  end

  logic [2:0] turn_q;
  assign done_o = turn_q[2];
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) turn_q <= '0;
    else turn_q <= {turn_q[1:0], start_i};
  end
  always_ff @(posedge clk_i) begin
    windows_q     <= windows_d;
    field_error_q <= field_error_d;
    line_mask_q   <= line_mask_d;
    beyond_q      <= beyond_d;
    store_end_q   <= store_end_d;
    too_long_q    <= too_long_d;
  end

endmodule
