// IEEE 754 binary32 addition, rounding to nearest even, subnormal numbers kept; every NaN is
// 0x7fc00000. Takes operands in one cycle and outputs the sum in the next, without an output register:
// the consumer registers the sum, so an addition takes two cycles.
module nf_fp32_adder (
    input  logic        clk_i,
    input  logic [31:0] a_i,
    input  logic [31:0] b_i,
    output logic [31:0] sum_o
);

  localparam logic [31:0] NOT_A_NUMBER = 32'h7fc0_0000;

  // Align and add. The mantissas have a hidden bit above and three bits below: guard, round, sticky.
  logic [31:0] x, y;  // |x| >= |y|
  logic [7:0] x_exponent, y_exponent, distance;
  logic [26:0] x_mantissa, y_mantissa, y_shifted, y_aligned;
  logic subtract, a_nan, b_nan, a_infinite, b_infinite;
  logic [27:0] total_d, total_q;
  logic [7:0] exponent_q;
  logic sign_q, exact_zero_sign_q, nan_d, nan_q, infinite_d, infinite_q, infinite_sign_q;

  always_comb begin
    if (a_i[30:0] >= b_i[30:0]) {x, y} = {a_i, b_i};
    else {x, y} = {b_i, a_i};
    x_exponent = (x[30:23] == 8'd0) ? 8'd1 : x[30:23];
    y_exponent = (y[30:23] == 8'd0) ? 8'd1 : y[30:23];
    x_mantissa = {x[30:23] != 8'd0, x[22:0], 3'b000};
    y_mantissa = {y[30:23] != 8'd0, y[22:0], 3'b000};
    distance   = x_exponent - y_exponent;
    y_shifted  = (distance > 8'd26) ? '0 : y_mantissa >> distance[4:0];
    // The sticky bit: whether any bit was shifted out.
    y_aligned  = y_shifted;
    if (distance > 8'd26) y_aligned[0] = y_mantissa != '0;
    else if ((y_shifted << distance[4:0]) != y_mantissa) y_aligned[0] = 1'b1;
    subtract = x[31] != y[31];
    total_d  = subtract ? {1'b0, x_mantissa} - {1'b0, y_aligned}
                        : {1'b0, x_mantissa} + {1'b0, y_aligned};
  end

  assign a_nan      = (&a_i[30:23]) && a_i[22:0] != '0;
  assign b_nan      = (&b_i[30:23]) && b_i[22:0] != '0;
  assign a_infinite = (&a_i[30:23]) && a_i[22:0] == '0;
  assign b_infinite = (&b_i[30:23]) && b_i[22:0] == '0;
  assign nan_d      = a_nan || b_nan || (a_infinite && b_infinite && subtract);
  assign infinite_d = a_infinite || b_infinite;

  always_ff @(posedge clk_i) begin
    total_q           <= total_d;
    exponent_q        <= x_exponent;
    sign_q            <= x[31];
    exact_zero_sign_q <= a_i[31] && b_i[31];
    nan_q             <= nan_d;
    infinite_q        <= infinite_d;
    infinite_sign_q   <= a_infinite ? a_i[31] : b_i[31];
  end

  // Normalise and round.
  logic [4:0] leading_zeros, shift;
  logic [26:0] normal;
  logic [8:0] exponent;
  logic round_up;
  logic [31:0] rounded;

  always_comb begin
    leading_zeros = 5'd27;
    for (int unsigned i = 0; i < 27; i++) if (total_q[i]) leading_zeros = 5'(26 - i);
    // A subnormal result keeps the minimum exponent.
    shift = (8'(leading_zeros) < exponent_q) ? leading_zeros : 5'(exponent_q - 8'd1);
    if (total_q[27]) begin
      normal   = {total_q[27:2], total_q[1] | total_q[0]};
      exponent = {1'b0, exponent_q} + 9'd1;
    end else begin
      normal   = total_q[26:0] << shift;
      exponent = {1'b0, exponent_q} - {4'd0, shift};
    end
    if (!normal[26]) exponent = '0;
    round_up = normal[2] && (normal[1] || normal[0] || normal[3]);
    rounded  = {sign_q, exponent[7:0], normal[25:3]} + 32'(round_up);
    if (nan_q) sum_o = NOT_A_NUMBER;
    else if (infinite_q) sum_o = {infinite_sign_q, 8'hff, 23'd0};
    else if (total_q == '0) sum_o = {exact_zero_sign_q, 31'd0};
    else if (exponent >= 9'd255) sum_o = {sign_q, 8'hff, 23'd0};
    else sum_o = rounded;
  end

endmodule
