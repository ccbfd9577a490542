#include "concurrent_test.h"

#include <cstdio>
#include <deque>

#include "reference.h"

namespace nf::rtl {
namespace {

constexpr std::uint64_t kControl = 0x00, kError = 0x40, kErrorAddress = 0x48, kCompleted = 0x50;
constexpr std::uint64_t kGeneration = 0x20, kDeviceError = 0x10, kDeviceErrorAddress = 0x18;

class Player {
 public:
  Player(Device& device, const Limits& limits, const Round& round, std::mt19937_64& random)
      : device_(device), round_(round), random_(random), reference_(limits, 0) {
    for (unsigned r = 0; r < round.regions.size(); ++r) {
      reference_.enable(r, round.regions[r]);
      device.write_register(at(r, kError), 0);
    }
    device.write_register(kDeviceError, 0);
    generation_ = device.read_register(kGeneration);
  }

  bool play() {
    Traffic traffic{
        .next = [this]() -> std::optional<Request> {
          if (next_ == round_.requests.size()) return {};
          return round_.requests[next_++];
        },
        .answered = [this](const Answer& answer) { compare(answer); },
        .taken = [this](const Request& one) { expected_.push_back(reference_.answer(one)); },
        .access = [this] { return random_access(); },
        .access_taken = [this](const RegisterAccess& one) { apply(one); },
        .accessed = [this](const RegisterAccess& one, Fault fault,
                           std::uint64_t value) { compare(one, fault, value); },
        .ready = round_.ready};
    if (device_.play(traffic) && expected_.empty() && next_ == round_.requests.size()) {
      return is_correct_;
    }
    std::printf("%zu requests were not answered\n",
                expected_.size() + round_.requests.size() - next_);
    return false;
  }

 private:
  static std::uint64_t at(unsigned region, std::uint64_t offset) {
    return 0x100 + 0x80 * std::uint64_t{region} + offset;
  }

  std::optional<RegisterAccess> random_access() {
    if (random_() % 16 != 0) return {};
    region_ = static_cast<unsigned>(random_() % round_.regions.size());
    switch (random_() % 16) {
      case 0: return RegisterAccess{.is_write = true, .offset = at(region_, kControl), .value = 2};
      case 1: return RegisterAccess{.is_write = true, .offset = at(region_, kError)};
      case 2: return RegisterAccess{.offset = kGeneration};
      case 3: return RegisterAccess{.offset = kDeviceError};
      case 4: return RegisterAccess{.offset = kDeviceErrorAddress};
      case 5:
      case 6: return RegisterAccess{.offset = at(region_, kErrorAddress)};
      case 7:
      case 8: return RegisterAccess{.offset = at(region_, kError)};
      default: return RegisterAccess{.offset = at(region_, kCompleted)};
    }
  }

  // The effect of an access that has been taken, and the value that it must return.
  void apply(const RegisterAccess& access) {
    value_ = 0;
    if (access.is_write && access.offset == at(region_, kControl)) {
      reference_.clear(region_);
      ++generation_;
    } else if (access.is_write) {
      reference_.clear_error(region_);
    } else if (access.offset == kGeneration) {
      value_ = generation_;
    } else if (access.offset == kDeviceError) {
      value_ = static_cast<std::uint64_t>(reference_.device_error().fault);
    } else if (access.offset == kDeviceErrorAddress) {
      value_ = reference_.device_error().address;
    } else if (access.offset == at(region_, kError)) {
      value_ = static_cast<std::uint64_t>(reference_.error(region_).fault);
    } else if (access.offset == at(region_, kErrorAddress)) {
      value_ = reference_.error(region_).address;
    } else {
      value_ = reference_.completed(region_);
    }
  }

  void compare(const RegisterAccess& access, Fault fault, std::uint64_t value) {
    if (fault == Fault::kOk && value == value_) return;
    if (is_correct_) {
      std::printf("register %llx: error %u, value %llx, expected %llx\n",
                  static_cast<unsigned long long>(access.offset), static_cast<unsigned>(fault),
                  static_cast<unsigned long long>(value), static_cast<unsigned long long>(value_));
    }
    is_correct_ = false;
  }

  void compare(const Answer& answer) {
    const Answer& one = expected_.front();
    if (is_correct_ &&
        (answer.fault != one.fault || answer.complete != one.complete || answer.data != one.data)) {
      is_correct_ = false;
      std::printf("answer %zu: error %u, expected %u\n", answered_,
                  static_cast<unsigned>(answer.fault), static_cast<unsigned>(one.fault));
    }
    ++answered_;
    expected_.pop_front();
  }

  Device& device_;
  const Round& round_;
  std::mt19937_64& random_;
  Reference reference_;
  std::deque<Answer> expected_;  // of the requests in flight
  std::size_t next_ = 0, answered_ = 0;
  unsigned region_ = 0;  // of the access in progress
  std::uint64_t generation_ = 0, value_ = 0;
  bool is_correct_ = true;
};

}  // namespace

bool play_with_accesses(Device& device, const Limits& limits, const Round& round,
                        std::mt19937_64& random) {
  return Player(device, limits, round, random).play();
}

}  // namespace nf::rtl
