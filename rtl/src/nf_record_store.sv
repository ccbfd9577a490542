// The records on the controller: one is written and one is read in a cycle, the whole record at
// once. What is read shows in the next cycle and stays until the next read. Reading the record that
// is being written gives no promised value: the pipeline forwards.
module nf_record_store #(
    parameter int unsigned RECORDS = 512,
    parameter int unsigned BITS = 4192,
    localparam int unsigned INDEX_BITS = RECORDS > 1 ? $clog2(RECORDS) : 1
) (
    input  logic                  clk_i,
    input  logic                  read_i,
    input  logic [INDEX_BITS-1:0] read_index_i,
    output logic [BITS-1:0]       record_o,
    input  logic                  write_i,
    input  logic [INDEX_BITS-1:0] write_index_i,
    input  logic [BITS-1:0]       record_i
);

  (* no_rw_check *)
  logic [BITS-1:0] records[RECORDS];

  always_ff @(posedge clk_i) begin
    if (write_i) records[write_index_i] <= record_i;
    if (read_i) record_o <= records[read_index_i];
  end

endmodule
