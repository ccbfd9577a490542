// Stage 1: finds the region of an address, its description, and the offset from its base in lines.
// Regions never overlap, so at most one matches, and an OR combines them. All comparisons run in
// parallel.
module nf_region_lookup
  import nf_reducer_pkg::*;
#(
    parameter int unsigned REGIONS = 4,
    localparam int unsigned INDEX_BITS = REGIONS > 1 ? $clog2(REGIONS) : 1
) (
    input  region_t [REGIONS-1:0]          regions_i,
    input  logic    [BYTE_ADDRESS_BITS-1:0] address_i,
    output logic                           owned_o,
    output logic    [INDEX_BITS-1:0]       number_o,
    output region_t                        region_o,
    output logic    [ADDRESS_BITS-1:0]     offset_o,
    output error_e                         error_o
);

  logic [ADDRESS_BITS-1:0] line;
  assign line = address_i[BYTE_ADDRESS_BITS-1-:ADDRESS_BITS];

  always_comb begin
    logic hit;
    owned_o  = 1'b0;
    number_o = '0;
    region_o = '0;
    offset_o = '0;
    for (int unsigned r = 0; r < REGIONS; r++) begin
      hit = regions_i[r].enabled && line >= regions_i[r].base && {1'b0, line} < regions_i[r].beyond;
      owned_o = owned_o | hit;
      if (hit) begin
        number_o = number_o | INDEX_BITS'(r);
        region_o = region_o | regions_i[r];
        offset_o = offset_o | (line - regions_i[r].base);
      end
    end
    if (address_i[5:0] != '0) error_o = ERROR_MISALIGNED;
    else if (!owned_o) error_o = ERROR_OUT_OF_RANGE;
    else error_o = ERROR_OK;
  end

endmodule
