// The records on the controller. Each cycle one whole record can be written and one read. Read data
// appear in the next cycle and stay until the next read. Reading the record that is being written
// returns an undefined value: the pipeline forwards.
//
// After a reset generations restart, and old records must not be mistaken for new ones. Every record
// is therefore set to generation 0, which no region has, one record per cycle.
module nf_record_store
  import nf_reducer_pkg::*;
#(
    parameter int unsigned RECORDS = 512,
    parameter int unsigned BITS = 4192,
    localparam int unsigned INDEX_BITS = RECORDS > 1 ? $clog2(RECORDS) : 1
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    output logic                  ready_o,        // until then no region may be enabled
    input  logic                  read_i,
    input  logic [INDEX_BITS-1:0] read_index_i,
    output logic [BITS-1:0]       record_o,
    input  logic                  write_i,
    input  logic [INDEX_BITS-1:0] write_index_i,
    input  logic [BITS-1:0]       record_i
);

  (* no_rw_check *)
  logic [BITS-1:0] records[RECORDS];

  logic wiping_q;
  logic [INDEX_BITS-1:0] wiped_q, index;
  logic [GENERATION_BITS-1:0] generation;
  assign ready_o    = !wiping_q;
  assign index      = wiping_q ? wiped_q : write_index_i;
  assign generation = wiping_q ? '0 : record_i[BITS-1-:GENERATION_BITS];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      wiping_q <= 1'b1;
      wiped_q  <= '0;
    end else if (wiping_q) begin
      wiping_q <= wiped_q != INDEX_BITS'(RECORDS - 1);
      wiped_q  <= wiped_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (write_i || wiping_q) records[index] <= {generation, record_i[BITS-GENERATION_BITS-1:0]};
    if (read_i) record_o <= records[read_index_i];
  end

endmodule
