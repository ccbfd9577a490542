// Assertions bound to the pipeline in simulation: the invariants of the stages.
module nf_pipeline_checks
  import nf_reducer_pkg::*;
#(
    parameter int unsigned REGIONS = 4
) (
    input logic                          clk_i,
    input logic                          rst_ni,
    input region_t [REGIONS-1:0]         regions_i,
    input logic                          advance,
    input logic                          valid_i,
    input logic                          fold4,
    input logic                          empty_o,
    input logic                          fold_busy_i,
    input logic                          fold_last_i,
    input logic                          record_read_o,
    input logic                          record_write_o,
    input error_e                        error_o,
    input logic                          valid_o,
    input logic [BYTE_ADDRESS_BITS-1:0]  address_i
);

  logic [REGIONS-1:0] owners;
  logic [ADDRESS_BITS-1:0] line;
  assign line = ADDRESS_BITS'(address_i >> 6);
  for (genvar r = 0; r < REGIONS; r++) begin : gen_owner
    assign owners[r] = regions_i[r].enabled
        && {1'b0, line} < regions_i[r].beyond
        && line >= regions_i[r].base;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!valid_i || $onehot0(owners));                 // regions never overlap
      assert (!(valid_o && error_o == ERROR_OVERFLOW));      // no counter ever wraps
      assert (!(fold4 && fold_busy_i));                        // one fold at a time
      assert (!(fold_busy_i && advance));                      // and the pipeline waits for it
      assert (!(fold_busy_i && empty_o));                      // for a request in stage 5
      assert (!(fold_last_i && record_read_o));                // without access to the store
      assert (!(fold_busy_i && record_write_o && !fold_last_i));
    end
  end


endmodule

bind nf_pipeline nf_pipeline_checks #(.REGIONS(REGIONS)) i_checks (.*);
