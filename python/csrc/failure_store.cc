#include "failure_store.h"

#include <c10/util/StringUtil.h>

#include <chrono>
#include <thread>
#include <utility>

namespace nf::torch_front {
namespace {

constexpr std::chrono::seconds kStoreTimeout{1};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// The key of the step in which the rank waits; missing or empty if it does not.
std::string name_of(const std::string& prefix, std::uint32_t rank) {
  return c10::str(prefix, "/waits/", rank);
}

std::string value_of(c10d::Store& store, const std::string& key) {
  return store.check({key}) ? text_of(store.get(key)) : std::string();
}

// Two requests if all keys exist and the store can read several at once, otherwise two per key.
std::vector<std::string> values_of(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  if (store.hasExtendedApi() && store.check(keys)) {
    for (const auto& value : store.multiGet(keys)) values.push_back(text_of(value));
  } else {
    for (const std::string& key : keys) values.push_back(value_of(store, key));
  }
  return values;
}

bool is_there(const std::future<std::string>& answer, std::chrono::seconds timeout) {
  return answer.wait_for(timeout) == std::future_status::ready;
}

bool waits_in(const std::string& acknowledged, std::uint64_t step) {
  return !acknowledged.empty() && std::stoull(acknowledged) + 1 >= step;
}

}  // namespace

FailureStore::FailureStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)), key_(prefix_ + "/failure") {}

// A TCPStore waits for its host without a deadline, and that host may be the rank that has stopped.
// So a detached thread runs the query. While it is pending, another query would only wait behind
// it.
std::optional<std::string> FailureStore::ask(std::function<std::string(c10d::Store&)> question) {
  const std::lock_guard lock(mutex_);
  if (answer_.valid() && !is_there(answer_, {})) return {};
  std::packaged_task<std::string()> task(
      [store = store_, question = std::move(question)] { return question(*store); });
  answer_ = task.get_future();
  std::thread(std::move(task)).detach();
  if (!is_there(answer_, kStoreTimeout)) return {};
  try {
    return answer_.get();
  } catch (const std::exception&) {
    return {};  // the rank that died may host the store
  }
}

std::string FailureStore::report(const std::string& what) {
  return ask([key = key_, what](c10d::Store& store) {
           // An empty expected value: set the key only if it does not exist.
           return text_of(store.compareSet(key, {}, bytes_of(what)));
         })
      .value_or(what);
}

std::string FailureStore::read() {
  return ask([key = key_](c10d::Store& store) { return value_of(store, key); })
      .value_or(std::string());
}

void FailureStore::set(const std::string& key, const std::string& value) {
  static_cast<void>(ask([key, value](c10d::Store& store) {
    store.set(key, bytes_of(value));
    return std::string();
  }));
}

void FailureStore::acknowledge(std::uint32_t rank, std::uint64_t step) {
  set(name_of(prefix_, rank), std::to_string(step));
}

void FailureStore::clear_acknowledgement(std::uint32_t rank) { set(name_of(prefix_, rank), ""); }

std::optional<std::vector<std::uint32_t>> FailureStore::missing(std::uint32_t ranks,
                                                                std::uint64_t step) {
  const std::optional<std::string> waiting =
      ask([prefix = prefix_, ranks, step](c10d::Store& store) {
        std::vector<std::string> keys;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) keys.push_back(name_of(prefix, rank));
        std::string result;
        for (const std::string& acknowledged : values_of(store, keys)) {
          result += waits_in(acknowledged, step) ? '1' : '0';
        }
        return result;
      });
  if (!waiting) return {};
  std::vector<std::uint32_t> result;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if ((*waiting)[rank] == '0') result.push_back(rank);
  }
  return result;
}

}  // namespace nf::torch_front
