#include "cuda/collective/layout_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace nf::cuda {
namespace {

struct Layout {
  std::uint64_t key = 0;
};

// A cache and how often a layout had to be made.
struct Job {
  LayoutCache<Layout> cache;
  std::size_t made = 0;

  void use(std::uint64_t step, std::uint64_t key) {
    Layout* layout =
        cache.find(step, [&](const Layout& candidate) { return candidate.key == key; });
    if (layout == nullptr) {
      layout = cache.add(step, std::make_unique<Layout>(Layout{key}));
      ++made;
    }
    ASSERT_EQ(layout->key, key);
  }
};

TEST(LayoutCache, MakesTheLayoutOfEveryBucketOnceHoweverManyThereAre) {
  for (const std::uint64_t buckets : {1u, 256u, 257u, 600u, 5000u}) {
    Job job;
    for (std::uint64_t step = 0; step < 10; ++step) {
      for (std::uint64_t key = 0; key < buckets; ++key) job.use(step, key);
    }
    EXPECT_EQ(job.made, buckets);
    EXPECT_EQ(job.cache.size(), buckets);
  }
}

TEST(LayoutCache, DropsTheBucketsFromBeforeARebuild) {
  constexpr std::uint64_t kBuckets = 600;
  Job job;
  for (std::uint64_t step = 0; step < 10; ++step) {
    const std::uint64_t first = step == 0 ? 0 : kBuckets;
    for (std::uint64_t key = first; key < first + kBuckets; ++key) job.use(step, key);
  }
  EXPECT_EQ(job.made, 2 * kBuckets);
  EXPECT_EQ(job.cache.size(), kBuckets);
}

TEST(LayoutCache, KeepsLayoutsOfARouteThatPauses) {
  Job job;
  for (std::uint64_t step = 0; step < 100; ++step) {
    for (std::uint64_t key = 0; key < 100; ++key) job.use(step, key);
    if (step % 16 == 0) job.use(step, 1000);
  }
  EXPECT_EQ(job.made, 101u);
}

TEST(LayoutCache, StaysBoundedWhileLayoutsKeepChanging) {
  constexpr std::uint64_t kBuckets = 300;
  Job job;
  std::uint64_t key = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {
    for (std::uint64_t i = 0; i < kBuckets; ++i) job.use(step, key++);
    EXPECT_LE(job.cache.size(), 4 * kBuckets);
  }
}

TEST(LayoutCache, StaysBoundedIfTheStepNeverChanges) {
  using Cache = LayoutCache<Layout>;
  Cache cache;
  for (std::uint64_t key = 0; key < 2 * Cache::kMaxLayouts; ++key) {
    EXPECT_EQ(cache.add(7, std::make_unique<Layout>(Layout{key}))->key, key);
  }
  EXPECT_EQ(cache.size(), Cache::kMaxLayouts);
}

TEST(LayoutCache, WorksAfterTheStepGoesBack) {
  constexpr std::uint64_t kBuckets = 600;
  Job job;
  for (const std::uint64_t step : {100u, 101u, 5u, 6u, 7u}) {
    for (std::uint64_t key = 0; key < kBuckets; ++key) job.use(step, key);
    EXPECT_EQ(job.cache.size(), kBuckets);
  }
  EXPECT_LE(job.made, 2 * kBuckets);
}

TEST(LayoutCache, SumsOverItsLayoutsAndForgetsThem) {
  Job job;
  for (std::uint64_t key = 1; key <= 4; ++key) job.use(0, key);
  const auto keys = [](const Layout& layout) { return std::size_t(layout.key); };
  EXPECT_EQ(job.cache.sum(keys), 10u);
  job.cache.clear();
  EXPECT_EQ(job.cache.size(), 0u);
  job.use(0, 1);
  EXPECT_EQ(job.made, 5u);
}

}  // namespace
}  // namespace nf::cuda
