// Stages 1 and 2: takes a request and finds its region, window, line and record. The outputs belong
// to the request in stage 2; the record with that number must be read in the same cycle.
module nf_lookup
  import nf_reducer_pkg::*;
#(
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORD_BITS = 9
) (
    input  logic                                 clk_i,
    input  logic                                 advance_i,
    input  region_t [REGIONS-1:0]                regions_i,
    input  logic                                 write_i,
    input  logic    [BYTE_ADDRESS_BITS-1:0]      address_i,
    input  logic    [LINE_BITS-1:0]              data_i,
    output tag_t                                 tag_o,
    output logic    [WINDOW_BITS-1:0]            window_o,
    output logic    [ADDRESS_BITS-1:0]           line_o,
    output logic    [RECORD_BITS-1:0]            record_o,
    output logic                                 ternary_o,
    output logic    [LINE_BITS-1:0]              data_o
);

  localparam int unsigned REGION_BITS = REGIONS > 1 ? $clog2(REGIONS) : 1;

  // Stage 1
  logic write1_q;
  logic [BYTE_ADDRESS_BITS-1:0] address1_q;
  logic [LINE_BITS-1:0] data1_q;
  tag_t tag1;
  logic [REGION_BITS-1:0] number1;
  logic [ADDRESS_BITS-1:0] offset1;
  region_t region1;

  always_ff @(posedge clk_i)
    if (advance_i) begin
      write1_q   <= write_i;
      address1_q <= address_i;
      data1_q    <= data_i;
    end

  assign tag1.write   = write1_q;
  assign tag1.address = address1_q;
  assign tag1.region  = 8'(number1);
  nf_region_lookup #(
      .REGIONS(REGIONS)
  ) i_region (
      .regions_i,
      .address_i(address1_q),
      .owned_o  (tag1.owned),
      .number_o (number1),
      .region_o (region1),
      .offset_o (offset1),
      .error_o  (tag1.error)
  );

  // Stage 2
  tag_t tag2_q;
  logic [ADDRESS_BITS-1:0] offset2_q;
  logic [LINE_BITS-1:0] data2_q;
  region_t region2_q;
  error_e error2;

  always_ff @(posedge clk_i)
    if (advance_i) begin
      tag2_q    <= tag1;
      offset2_q <= offset1;
      region2_q <= region1;
      data2_q   <= data1_q;
    end

  nf_window_lookup #(
      .RECORD_BITS(RECORD_BITS)
  ) i_window (
      .region_i(region2_q),
      .offset_i(offset2_q),
      .error_i (tag2_q.error),
      .window_o,
      .line_o,
      .record_o,
      .error_o (error2)
  );

  always_comb begin
    tag_o       = tag2_q;
    tag_o.error = error2;
  end
  assign ternary_o = region2_q.mode == MODE_G_TERNARY;
  assign data_o    = data2_q;

endmodule
