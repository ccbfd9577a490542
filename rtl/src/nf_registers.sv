// The registers of docs/cxl.md. An access is taken while the pipeline is empty and the store is ready
// (open_i), and is answered some cycles later. The next access waits until the answer has been taken.
module nf_registers
  import nf_reducer_pkg::*;
#(
    parameter int unsigned PLANES = 8,
    parameter int unsigned WORKERS = 64,
    parameter int unsigned REGIONS = 4,
    parameter int unsigned RECORDS = 512,
    // Limits of counters; tests lower them
    parameter logic [GENERATION_BITS-1:0] LAST_GENERATION = '1,
    parameter logic [31:0] MAX_ERRORS = '1
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    input  logic                  open_i,
    output logic                  busy_o,     // an access is in progress: requests must wait
    output region_t [REGIONS-1:0] regions_o,
    input  event_t                event_i,
    // Accesses
    input  logic                  valid_i,
    output logic                  ready_o,
    input  logic                  write_i,
    input  logic    [15:0]        address_i,
    input  logic    [63:0]        data_i,
    // Answers
    output logic                  valid_o,
    input  logic                  ready_i,
    output error_e                error_o,
    output logic    [63:0]        data_o
);

  localparam int unsigned INDEX_BITS = REGIONS > 1 ? $clog2(REGIONS) : 1;
  localparam logic [63:0] ID = 64'h4e46_4358_4c00_0001;
  localparam logic [63:0] CAPABILITIES =
      64'(RECORDS) << 32 | 64'(REGIONS) << 24 | 64'(WORKERS) << 8 | 64'(PLANES);

  // Offsets of the device registers and within a region.
  localparam logic [15:0] DEVICE_ID = 16'h00, DEVICE_CAPABILITIES = 16'h08, DEVICE_ERROR = 16'h10,
                          DEVICE_ERROR_ADDRESS = 16'h18, DEVICE_GENERATION = 16'h20,
                          FIRST_REGION = 16'h100;
  localparam logic [6:0] CONTROL = 7'h00, MODE = 7'h08, WORKER_COUNT = 7'h10, BASE = 7'h18,
                         LENGTH = 7'h20, STRIDE = 7'h28, STORE = 7'h30, STATUS = 7'h38,
                         ERROR = 7'h40, ERROR_ADDRESS = 7'h48, COMPLETED = 7'h50, ERRORS = 7'h58;

  typedef struct packed {
    error_e                       error;
    logic [BYTE_ADDRESS_BITS-1:0] error_address;
    logic [31:0]                  errors;
    logic [ADDRESS_BITS-1:0]      completed;
  } condition_t;

  typedef enum logic [1:0] {
    IDLE,
    CHECK,   // checking a region to be enabled
    REPORT,  // storing an error in the registers
    ANSWER
  } state_e;

  state_e state_q;
  config_t [REGIONS-1:0] configs_q;
  region_t [REGIONS-1:0] regions_q;
  condition_t [REGIONS-1:0] conditions_q;
  logic [GENERATION_BITS-1:0] generation_q;
  error_e device_error_q, error_q, error_d, check_error;
  logic [BYTE_ADDRESS_BITS-1:0] device_error_address_q;
  logic [63:0] data_q, data_d;
  logic owned_q, owned_d;
  logic [INDEX_BITS-1:0] index_q, index_d;
  logic check_start, check_done, exhausted;
  region_t checked;

  assign regions_o = regions_q;
  assign busy_o    = valid_i || state_q != IDLE;
  assign ready_o   = state_q == IDLE && open_i;
  assign valid_o   = state_q == ANSWER;
  assign error_o   = error_q;
  assign data_o    = data_q;
  assign exhausted = generation_q == LAST_GENERATION;

  // The target of an access.
  logic [8:0] number;
  logic [6:0] offset;
  config_t config_d;
  condition_t condition;
  region_t region;
  assign number    = address_i[15:7] - 9'd2;
  assign offset    = address_i[6:0];
  assign owned_d   = address_i >= FIRST_REGION && number < 9'(REGIONS);
  assign index_d   = owned_d ? number[INDEX_BITS-1:0] : '0;
  assign condition = conditions_q[index_d];
  assign region    = regions_q[index_d];

  // Reads.
  always_comb begin
    data_d   = '0;
    config_d = configs_q[index_d];
    if (owned_d) begin
      unique case (offset)
        MODE:          data_d = config_d.mode;
        WORKER_COUNT:  data_d = config_d.workers;
        BASE:          data_d = config_d.base;
        LENGTH:        data_d = config_d.length;
        STRIDE:        data_d = config_d.stride;
        STORE:         data_d = config_d.store;
        STATUS:        data_d = {61'd0, condition.error != ERROR_OK,
                                 region.enabled && condition.completed == region.length,
                                 region.enabled};
        ERROR:         data_d = 64'(condition.error);
        ERROR_ADDRESS: data_d = 64'(condition.error_address);
        COMPLETED:     data_d = 64'(condition.completed);
        ERRORS:        data_d = 64'(condition.errors);
        default:       data_d = '0;
      endcase
    end else begin
      unique case (address_i)
        DEVICE_ID:            data_d = ID;
        DEVICE_CAPABILITIES:  data_d = CAPABILITIES;
        DEVICE_ERROR:         data_d = 64'(device_error_q);
        DEVICE_ERROR_ADDRESS: data_d = 64'(device_error_address_q);
        DEVICE_GENERATION:    data_d = 64'(generation_q);
        default:              data_d = '0;
      endcase
    end
  end

  // Errors of a write, except the checks of enable.
  always_comb begin
    error_d = ERROR_OK;
    if (owned_d) begin
      unique case (offset)
        CONTROL: begin
          if (data_i > 64'd2) error_d = ERROR_WRONG_MODE;
          else if (data_i == 64'd2 && !region.enabled) error_d = ERROR_OUT_OF_RANGE;
          else if (data_i == 64'd2 && exhausted) error_d = ERROR_EXHAUSTED;
        end
        MODE, WORKER_COUNT, BASE, LENGTH, STRIDE, STORE: if (region.enabled) error_d = ERROR_LOCKED;
        ERROR: error_d = ERROR_OK;
        STATUS, ERROR_ADDRESS, COMPLETED, ERRORS: error_d = ERROR_LOCKED;
        default: error_d = ERROR_OUT_OF_RANGE;
      endcase
    end else begin
      unique case (address_i)
        DEVICE_ERROR: error_d = ERROR_OK;
        DEVICE_ID, DEVICE_CAPABILITIES, DEVICE_ERROR_ADDRESS, DEVICE_GENERATION:
        error_d = ERROR_LOCKED;
        default: error_d = ERROR_OUT_OF_RANGE;
      endcase
    end
  end

  logic taken, put, enable;
  logic [INDEX_BITS-1:0] check_index;
  assign taken       = valid_i && ready_o;
  assign put         = taken && write_i && error_d == ERROR_OK;
  assign enable      = put && owned_d && offset == CONTROL && data_i == 64'd1;
  assign check_start = enable;
  assign check_index = (state_q == IDLE) ? index_d : index_q;

  nf_region_check #(
      .PLANES (PLANES),
      .WORKERS(WORKERS),
      .REGIONS(REGIONS),
      .RECORDS(RECORDS)
  ) i_check (
      .clk_i,
      .rst_ni,
      .start_i    (check_start),
      .config_i   (configs_q[check_index]),
      .enabled_i  (regions_q[check_index].enabled),
      .exhausted_i(exhausted),
      .regions_i  (regions_q),
      .done_o     (check_done),
      .error_o    (check_error),
      .region_o   (checked)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= IDLE;
    end else begin
      unique case (state_q)
        IDLE:
        if (taken) begin
          if (enable) state_q <= CHECK;
          else state_q <= (write_i && error_d != ERROR_OK) ? REPORT : ANSWER;
        end
        CHECK:  if (check_done) state_q <= (check_error != ERROR_OK) ? REPORT : ANSWER;
        REPORT: state_q <= ANSWER;
        ANSWER: if (ready_i) state_q <= IDLE;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (taken) begin
      error_q <= write_i ? error_d : ERROR_OK;
      data_q  <= write_i ? '0 : data_d;
      owned_q <= owned_d;
      index_q <= index_d;
    end
    if (check_done) error_q <= check_error;
  end

  // Errors come from the pipeline or from an access, never from both in the same cycle.
  logic report, report_owned;
  logic [INDEX_BITS-1:0] report_index;
  error_e report_error;
  logic [BYTE_ADDRESS_BITS-1:0] report_address;
  always_comb begin
    if (event_i.valid) begin
      report         = event_i.tag.error != ERROR_OK;
      report_owned   = event_i.tag.owned;
      report_index   = event_i.tag.region[INDEX_BITS-1:0];
      report_error   = event_i.tag.error;
      report_address = event_i.tag.address;
    end else begin
      report         = state_q == REPORT;
      report_owned   = owned_q;
      report_index   = index_q;
      report_error   = error_q;
      report_address = '0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      configs_q              <= '0;
      regions_q              <= '0;
      conditions_q           <= '0;
      generation_q           <= '0;
      device_error_q         <= ERROR_OK;
      device_error_address_q <= '0;
    end else begin
      if (put && owned_d) begin
        unique case (offset)
          MODE:         configs_q[index_d].mode <= data_i;
          WORKER_COUNT: configs_q[index_d].workers <= data_i;
          BASE:         configs_q[index_d].base <= data_i;
          LENGTH:       configs_q[index_d].length <= data_i;
          STRIDE:       configs_q[index_d].stride <= data_i;
          STORE:        configs_q[index_d].store <= data_i;
          ERROR: begin
            conditions_q[index_d].error         <= ERROR_OK;
            conditions_q[index_d].error_address <= '0;
          end
          CONTROL: begin
            if (data_i == 64'd0) regions_q[index_d].enabled <= 1'b0;
            if (data_i == 64'd2) begin
              generation_q                    <= generation_q + 1'b1;
              regions_q[index_d].generation   <= generation_q + 1'b1;
              conditions_q[index_d].completed <= '0;
            end
          end
          default: ;
        endcase
      end
      if (put && !owned_d) begin
        device_error_q         <= ERROR_OK;
        device_error_address_q <= '0;
      end
      if (check_done && check_error == ERROR_OK) begin
        generation_q                    <= generation_q + 1'b1;
        regions_q[index_q]              <= checked;
        regions_q[index_q].generation   <= generation_q + 1'b1;
        conditions_q[index_q].completed <= '0;
      end
      if (report && report_owned) begin
        if (conditions_q[report_index].errors != MAX_ERRORS)
          conditions_q[report_index].errors <= conditions_q[report_index].errors + 1'b1;
        if (conditions_q[report_index].error == ERROR_OK) begin
          conditions_q[report_index].error         <= report_error;
          conditions_q[report_index].error_address <= report_address;
        end
      end
      if (report && !report_owned && device_error_q == ERROR_OK) begin
        device_error_q         <= report_error;
        device_error_address_q <= report_address;
      end
      if (event_i.valid && event_i.complete)
        conditions_q[event_i.tag.region[INDEX_BITS-1:0]].completed <=
            conditions_q[event_i.tag.region[INDEX_BITS-1:0]].completed + 1'b1;
    end
  end

endmodule
