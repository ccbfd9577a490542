#include "failure_store.h"

#include <utility>
#include <vector>

namespace nf::torch_front {
namespace {

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

FailureStore::FailureStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), key_(std::move(prefix) + "/failure") {}

std::string FailureStore::report(const std::string& what) {
  const std::lock_guard lock(mutex_);
  try {
    // An empty expectation: set where there is nothing yet.
    const std::vector<std::uint8_t> stands = store_->compareSet(key_, {}, bytes_of(what));
    return {stands.begin(), stands.end()};
  } catch (const std::exception&) {
    return what;  // the host of the store may be the rank that died
  }
}

std::string FailureStore::read() {
  const std::lock_guard lock(mutex_);
  try {
    if (!store_->check({key_})) return {};
    const std::vector<std::uint8_t> stands = store_->get(key_);
    return {stands.begin(), stands.end()};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace nf::torch_front
