#include "worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace nf::torch_front {
namespace {

using testing::ElementsAre;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

TEST(Worker, DoesJobsInTheirOrderOnOneThread) {
  Worker worker;
  std::vector<int> done;
  std::thread::id thread;
  worker.post([&] { thread = std::this_thread::get_id(); });
  for (int i = 0; i < 100; ++i) {
    worker.post([&, i] {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      done.push_back(i);
    });
  }
  worker.drain();
  ASSERT_EQ(done.size(), 100u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(worker.failure(), std::nullopt);
}

TEST(Worker, CallsTheHandlerOfAJobThatThrowsAndGoesOn) {
  Worker worker;
  std::vector<std::string> events;
  for (const char* name : {"a", "b"}) {
    worker.post([name] { fail(std::string("job ") + name); },
                [&events](const std::string& what) { events.push_back(what); });
    worker.post([&] { events.emplace_back("next"); },
                [](const std::string& what) { ADD_FAILURE() << what; });
  }
  worker.drain();
  EXPECT_THAT(events, ElementsAre("job a", "next", "job b", "next"));
  EXPECT_EQ(worker.failure(), std::nullopt);
}

TEST(Worker, KeepsTheFirstExceptionThatNoHandlerTook) {
  Worker worker;
  int later = 0;
  worker.post([] { fail("first"); });
  worker.post([] { fail("second"); });
  worker.post([&] { ++later; });
  worker.drain();
  EXPECT_EQ(worker.failure(), "first");
  EXPECT_EQ(later, 1);
}

TEST(Worker, SurvivesAHandlerThatThrows) {
  Worker worker;
  int later = 0;
  worker.post([] { fail("job"); }, [](const std::string& /*what*/) { fail("handler"); });
  worker.post([&] { ++later; });
  worker.drain();
  EXPECT_EQ(worker.failure(), "handler");
  EXPECT_EQ(later, 1);
}

TEST(Worker, SurvivesWhatIsNoStdException) {
  Worker worker;
  worker.post([] { throw 7; });
  worker.drain();
  EXPECT_EQ(worker.failure(), "an exception that is not a std::exception");
}

TEST(Worker, DoesWhatWasPostedBeforeItEnds) {
  int done = 0;
  {
    Worker worker;
    worker.post([] { fail("job"); });
    for (int i = 0; i < 10; ++i) worker.post([&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace nf::torch_front
