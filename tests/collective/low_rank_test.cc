#include "collective/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::same_bits;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;
using Matrix = std::vector<float>;

constexpr std::uint64_t kSeed = 11;
constexpr std::uint64_t kParameter = 22;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void add(std::span<const float> values, std::span<float> sums) {
  std::transform(sums.begin(), sums.end(), values.begin(), sums.begin(), std::plus<>());
}

// One parameter on several ranks; the test sums the factors.
class Replicas {
 public:
  Replicas(std::size_t ranks, std::uint32_t terms)
      : replicas_(ranks, LowRank(terms, kSeed, kParameter)) {}

  // The results of one step by rank.
  std::vector<Matrix> step(const std::vector<Matrix>& values, std::size_t rows) {
    std::vector<std::span<float>> factors;
    for (std::size_t rank = 0; rank < replicas_.size(); ++rank) {
      factors.push_back(replicas_[rank].first_factor(values[rank], rows));
    }
    sum(factors);
    for (std::size_t rank = 0; rank < replicas_.size(); ++rank) {
      factors[rank] = replicas_[rank].second_factor();
    }
    sum(factors);
    std::vector<Matrix> results;
    for (std::size_t rank = 0; rank < replicas_.size(); ++rank) {
      results.emplace_back(values[rank].size());
      replicas_[rank].finish(results.back());
    }
    return results;
  }

  LowRank& operator[](std::size_t rank) { return replicas_[rank]; }

 private:
  static void sum(const std::vector<std::span<float>>& factors) {
    Matrix total(factors[0].size(), 0.0f);
    for (const auto factor : factors) add(factor, total);
    for (const auto factor : factors) std::copy(total.begin(), total.end(), factor.begin());
  }

  std::vector<LowRank> replicas_;
};

Matrix step_alone(Replicas& replicas, const Matrix& values, std::size_t rows) {
  return replicas.step({values}, rows)[0];
}

// A sum of `terms` products of a column and a row.
Matrix product(test::Generator& random, std::size_t rows, std::size_t cols, unsigned terms) {
  Matrix matrix(rows * cols);
  for (unsigned k = 0; k < terms; ++k) {
    const Matrix column = random.normal(rows);
    const Matrix row = random.normal(cols);
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += column[i / cols] * row[i % cols];
  }
  return matrix;
}

double norm(const Matrix& matrix) {
  double squares = 0;
  for (const float value : matrix) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

// || actual - expected || / || expected ||.
double relative_error(const Matrix& actual, const Matrix& expected) {
  Matrix difference = actual;
  std::transform(actual.begin(), actual.end(), expected.begin(), difference.begin(),
                 std::minus<>());
  return norm(difference) / norm(expected);
}

TEST(LowRank, IsExactOnMatricesOfItsRank) {
  test::Generator random(1);
  for (const auto& [rows, cols, terms] : {std::tuple{40u, 70u, 2u},
                                          {70u, 40u, 4u},
                                          {17u, 33u, 1u},
                                          {300u, 16u, 3u},
                                          {9u, 1000u, 3u}}) {
    for (unsigned held = 1; held <= terms; ++held) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", " << held << " of " << terms);
      const Matrix matrix = product(random, rows, cols, held);
      Replicas replicas(1, terms);
      // Random columns can be nearly orthogonal to the matrix and amplify rounding; later ones are
      // not.
      EXPECT_LT(relative_error(step_alone(replicas, matrix, rows), matrix), 1e-3);
      step_alone(replicas, matrix, rows);
      EXPECT_LT(relative_error(step_alone(replicas, matrix, rows), matrix), 3e-6);
    }
  }
}

TEST(LowRank, SumsOverRanks) {
  test::Generator random(2);
  const std::vector<Matrix> values = {product(random, 50, 60, 1), product(random, 50, 60, 1),
                                      product(random, 50, 60, 2)};
  Matrix total(50 * 60, 0.0f);
  for (const Matrix& matrix : values) add(matrix, total);
  Replicas replicas(3, 4);
  for (const Matrix& result : replicas.step(values, 50)) {
    EXPECT_LT(relative_error(result, total), 1e-3);
  }
}

TEST(LowRank, LosesOnlyThePartBeyondItsRank) {
  test::Generator random(3);
  Matrix matrix = product(random, 64, 64, 1);
  const Matrix noise = random.normal(matrix.size(), 1e-5f);
  add(noise, matrix);
  Replicas replicas(1, 4);
  EXPECT_LT(relative_error(step_alone(replicas, matrix, 64), matrix),
            10 * norm(noise) / norm(matrix));
}

TEST(LowRank, ReusesTheBasisOfTheLastStep) {
  test::Generator random(4);
  const Matrix before = product(random, 80, 80, 2);
  Matrix now = before;
  add(random.normal(now.size(), 0.5f), now);
  Replicas fresh(1, 2);
  Replicas warm(1, 2);
  step_alone(warm, before, 80);  // exact, so that no error remains
  EXPECT_LT(relative_error(step_alone(warm, now, 80), now),
            relative_error(step_alone(fresh, now, 80), now));
}

TEST(LowRank, SendsTheErrorEventually) {
  test::Generator random(5);
  const std::vector<Matrix> values = {random.normal(30 * 20), random.normal(30 * 20)};
  Matrix wanted(30 * 20, 0.0f);
  Matrix got(30 * 20, 0.0f);
  Replicas replicas(2, 2);
  double after_100 = 0;
  for (int step = 1; step <= 400; ++step) {
    for (const Matrix& matrix : values) add(matrix, wanted);
    add(replicas.step(values, 30)[0], got);
    if (step == 100) after_100 = relative_error(got, wanted);
  }
  // The error stays bounded while the sum grows.
  EXPECT_LT(after_100, 0.1);
  EXPECT_LT(relative_error(got, wanted), 0.4 * after_100);
}

TEST(LowRank, IsBitIdenticalOnAllRanks) {
  test::Generator random(6);
  Replicas replicas(3, 3);
  for (int step = 0; step < 10; ++step) {
    const std::vector<Matrix> values = {random.mixture(45 * 37), random.mixture(45 * 37),
                                        random.mixture(45 * 37)};
    const std::vector<Matrix> results = replicas.step(values, 45);
    EXPECT_TRUE(same_bits(results[1], results[0]));
    EXPECT_TRUE(same_bits(results[2], results[0]));
  }
}

TEST(LowRank, IsReproducible) {
  test::Generator random(7);
  Replicas one(1, 2);
  Replicas other(1, 2);
  for (int step = 0; step < 5; ++step) {
    const Matrix values = random.normal(33 * 50);
    EXPECT_TRUE(same_bits(step_alone(one, values, 33), step_alone(other, values, 33)));
  }
}

TEST(LowRank, ScalesWithItsInput) {
  test::Generator random(8);
  for (const float scale : {0x1p-90f, 0x1p90f}) {
    Replicas plain(1, 2);
    Replicas scaled(1, 2);
    for (int step = 0; step < 3; ++step) {
      const Matrix values = random.normal(40 * 40);
      Matrix large = values;
      for (float& value : large) value *= scale;
      Matrix result = step_alone(plain, values, 40);
      for (float& value : result) value *= scale;
      EXPECT_TRUE(same_bits(step_alone(scaled, large, 40), result));
    }
  }
}

TEST(LowRank, MapsZeroToZeroAndRecovers) {
  test::Generator random(9);
  Replicas replicas(1, 2);
  const Matrix zero(40 * 30, 0.0f);
  EXPECT_THAT(step_alone(replicas, zero, 40), Each(0.0f));
  EXPECT_THAT(step_alone(replicas, zero, 40), Each(0.0f));
  const Matrix matrix = product(random, 40, 30, 2);
  EXPECT_LT(relative_error(step_alone(replicas, matrix, 40), matrix), 1e-3);
}

TEST(LowRank, SendsAMatrixDenseIfFactorsAreNotSmaller) {
  test::Generator random(10);
  for (const auto& [rows, cols] : {std::pair{1u, 100u},
                                   {100u, 1u},
                                   {1u, 1u},
                                   {4u, 4u},
                                   {2u, 3u},
                                   {3u, 6u},
                                   {0u, 0u},
                                   {7u, 0u}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols);
    const std::vector<Matrix> values = {random.normal(rows * cols), random.normal(rows * cols)};
    EXPECT_EQ(low_rank_values(rows, cols, 2), rows * cols);
    Replicas replicas(2, 2);
    EXPECT_THAT(replicas[0].first_factor(values[0], rows), SizeIs(rows * cols));
    EXPECT_THAT(replicas[0].second_factor(), IsEmpty());
    Matrix total(rows * cols, 0.0f);
    for (const Matrix& matrix : values) add(matrix, total);
    for (const Matrix& result : replicas.step(values, rows)) EXPECT_TRUE(same_bits(result, total));
  }
}

TEST(LowRank, SendsTwoThinFactors) {
  EXPECT_EQ(low_rank_values(4096, 4096, 4), 4u * (4096 + 4096));
  EXPECT_EQ(low_rank_values(5, 5, 2), 20u);
  test::Generator random(11);
  LowRank low_rank(2, kSeed, kParameter);
  const std::size_t first = low_rank.first_factor(random.normal(50 * 30), 50).size();
  const std::size_t second = low_rank.second_factor().size();
  EXPECT_EQ(first, 2u * 50);
  EXPECT_EQ(second, 2u * 30);
  EXPECT_EQ(first + second, low_rank_values(50, 30, 2));
}

TEST(LowRank, PropagatesNanWithoutChangingItsState) {
  test::Generator random(12);
  for (const float bad : {kNan, kInfinity, -kInfinity, 0x1p101f}) {
    SCOPED_TRACE(bad);
    Replicas struck(2, 2);
    Replicas spared(2, 2);
    for (int step = 0; step < 4; ++step) {
      std::vector<Matrix> values = {random.normal(20 * 30), random.normal(20 * 30)};
      if (step == 1 || step == 2) {
        values[1][random.below(values[1].size())] = bad;
        for (const Matrix& result : struck.step(values, 20)) {
          EXPECT_TRUE(same_bits(result, Matrix(result.size(), kNan)));
        }
        continue;
      }
      const Matrix expected = spared.step(values, 20)[0];
      for (const Matrix& result : struck.step(values, 20)) {
        EXPECT_TRUE(same_bits(result, expected));
      }
    }
  }
}

TEST(LowRank, HandlesExtremeValues) {
  test::Generator random(13);
  Replicas replicas(2, 3);
  for (int step = 0; step < test::rounds_of(20); ++step) {
    const std::vector<Matrix> values = {random.hostile(24 * 40), random.hostile_finite(24 * 40)};
    const std::vector<Matrix> results = replicas.step(values, 24);
    EXPECT_TRUE(same_bits(results[1], results[0]));
  }
}

TEST(LowRank, CanAbandonAStep) {
  test::Generator random(14);
  Replicas whole(1, 2);
  Replicas broken(1, 2);
  for (int step = 0; step < 3; ++step) {
    const Matrix values = random.normal(30 * 30);
    broken[0].first_factor(random.normal(30 * 30), 30);
    if (step == 1) broken[0].second_factor();
    EXPECT_TRUE(same_bits(step_alone(broken, values, 30), step_alone(whole, values, 30)));
  }
}

TEST(LowRank, ResetsIfTheShapeChanges) {
  test::Generator random(15);
  const Matrix values = random.normal(30 * 40);
  Replicas used(1, 2);
  step_alone(used, values, 30);
  Replicas fresh(1, 2);
  EXPECT_TRUE(same_bits(step_alone(used, values, 40), step_alone(fresh, values, 40)));
}

}  // namespace
}  // namespace nf
