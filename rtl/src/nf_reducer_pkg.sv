// Types and constants of docs/cxl.md that several modules share.
package nf_reducer_pkg;

  localparam int unsigned LINE_BITS = 512;
  localparam int unsigned BYTE_ADDRESS_BITS = 48;
  localparam int unsigned ADDRESS_BITS = 42;  // of a line address
  localparam int unsigned WINDOW_BITS = 8;  // windows of a region: workers and results
  localparam int unsigned WORKER_BITS = 6;
  localparam int unsigned GENERATION_BITS = 32;

  typedef enum logic [1:0] {
    MODE_IDENTITY  = 2'd0,
    MODE_FP32      = 2'd1,
    MODE_G_BINARY  = 2'd2,
    MODE_G_TERNARY = 2'd3
  } mode_e;

  typedef enum logic [3:0] {
    ERROR_OK               = 4'd0,
    ERROR_WRONG_MODE       = 4'd1,
    ERROR_OVERLAP          = 4'd2,
    ERROR_TOO_MANY_WORKERS = 4'd3,
    ERROR_NOT_COMPLETE     = 4'd4,
    ERROR_DUPLICATE        = 4'd5,
    ERROR_OUT_OF_RANGE     = 4'd6,
    ERROR_BAD_DIGITS       = 4'd7,
    ERROR_MISALIGNED       = 4'd8,
    ERROR_LOCKED           = 4'd9,
    ERROR_EXHAUSTED        = 4'd10,
    ERROR_OVERFLOW         = 4'd11
  } error_e;

  // The registers of a region, valid or not.
  typedef struct packed {
    logic [63:0] mode;
    logic [63:0] workers;
    logic [63:0] base;
    logic [63:0] length;
    logic [63:0] stride;
    logic [63:0] store;
  } config_t;

  // The pipeline's view of a region. It changes only while the pipeline is empty. Addresses are line
  // addresses; a window has 2^`shift` lines.
  typedef struct packed {
    logic                       enabled;
    mode_e                      mode;
    logic [WINDOW_BITS-1:0]     workers;
    logic [ADDRESS_BITS-1:0]    base;
    logic [ADDRESS_BITS:0]      beyond;      // the first line above the last window
    logic [ADDRESS_BITS-1:0]    length;
    logic [ADDRESS_BITS-1:0]    line_mask;   // lines per window, minus one
    logic [5:0]                 shift;
    logic [31:0]                store;
    logic [GENERATION_BITS-1:0] generation;
    logic [2**WORKER_BITS-1:0]  everyone;    // one bit per worker
  } region_t;

  // The part of a request that passes from stage to stage.
  typedef struct packed {
    logic                         write;
    logic [BYTE_ADDRESS_BITS-1:0] address;
    logic                         owned;    // by `region`, otherwise by the device
    logic [7:0]                   region;
    error_e                       error;
  } tag_t;

  // The outcome of a request, for the registers.
  typedef struct packed {
    logic valid;
    tag_t tag;
    logic complete;  // the write completed its line
  } event_t;

endpackage
