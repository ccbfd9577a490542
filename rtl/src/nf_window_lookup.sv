// Stage 2: finds the window and line of an address, and the number of its record.
module nf_window_lookup
  import nf_reducer_pkg::*;
#(
    parameter int unsigned RECORD_BITS = 9
) (
    input  region_t                 region_i,
    input  logic [ADDRESS_BITS-1:0] offset_i,  // lines above the region's base
    input  error_e                  error_i,   // of stage 1; takes priority
    output logic [WINDOW_BITS-1:0]  window_o,
    output logic [ADDRESS_BITS-1:0] line_o,
    output logic [RECORD_BITS-1:0]  record_o,
    output error_e                  error_o
);

  assign window_o = WINDOW_BITS'(offset_i >> region_i.shift);
  assign line_o   = offset_i & region_i.line_mask;
  assign record_o = region_i.store[RECORD_BITS-1:0] + line_o[RECORD_BITS-1:0];

  always_comb begin
    if (error_i != ERROR_OK) error_o = error_i;
    else if (line_o >= region_i.length) error_o = ERROR_OUT_OF_RANGE;
    else error_o = ERROR_OK;
  end

endmodule
