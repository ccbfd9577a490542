#include "collective/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nf {
namespace {

// Messages in flight between two ranks in one direction: one on the wire, one queued behind it, one
// being encoded.
constexpr std::size_t kWindow = 3;
// Frames that are allocated before the first message, at most; more are added on demand.
constexpr std::size_t kMaxInitialFrames = 64;

bool is_send(StepKind kind) {
  return kind == StepKind::kReduceSend || kind == StepKind::kGatherSend;
}
FramePlace frame_place(MessageCodec::Place place, bool reduces) {
  return {reduces ? FramePlace::Part::kReduce : FramePlace::Part::kGather, place.chunk,
          place.index};
}

bool is_reduce(StepKind kind) {
  return kind == StepKind::kReduceSend || kind == StepKind::kReduceReceive;
}

}  // namespace

Status Executor::start(Transport& transport, const Schedule& schedule,
                       std::span<const TileCodec> parts, std::size_t max_bytes, FrameKind kind) {
  transport_ = &transport;
  schedule_ = &schedule;
  codec_.assign(parts, schedule.chunks, max_bytes);
  kind_ = kind;
  sent_.assign(parts.size(), {});
  plan();
  return {};
}

// Lists all transfers and the number that each place waits for. Reuses the memory of earlier calls.
void Executor::plan() {
  first_state_.clear();
  std::size_t places = 0;
  for (std::uint32_t chunk = 0; chunk < schedule_->chunks; ++chunk) {
    first_state_.push_back(places);
    places += codec_.messages(chunk);
  }
  states_.assign(places, {});
  gather_sends_.assign(schedule_->chunks, 0);
  to_decode_.clear();
  unsettled_ = 0;
  std::size_t largest = 0;
  has_reduce_ = false;
  has_gather_ = false;
  for (auto* queues : {&sends_, &receives_}) {
    queues->resize(schedule_->ranks);
    for (MessageQueue& queue : *queues) {
      queue.messages.clear();
      queue.settled = queue.started = 0;
    }
  }
  for (const Step& step : schedule_->steps) {
    (is_reduce(step.kind) ? has_reduce_ : has_gather_) = true;
    gather_sends_[step.chunk] += step.kind == StepKind::kGatherSend ? 1 : 0;
    MessageQueue& queue = (is_send(step.kind) ? sends_ : receives_)[step.peer];
    for (std::uint32_t index = 0; index < codec_.messages(step.chunk); ++index) {
      const Place place{step.chunk, index};
      if (codec_.is_empty(place)) continue;
      Message message{.step = &step, .place = place};
      if (step.kind == StepKind::kReduceReceive) message.order = state(place).expected++;
      queue.messages.push_back(message);
      ++unsettled_;
      largest = std::max(largest, codec_.size(place, step.contributions));
    }
  }
  list_peers();
  // Upper bound: one frame per transfer, and two per place.
  pool_.reserve(std::min(unsettled_ + 2 * states_.size(), kMaxInitialFrames), largest);
  to_decode_.reserve(states_.size());
}

// Most topologies have few peers in large jobs. Sends to the next rank come first, so that not all
// ranks send to the same one.
void Executor::list_peers() {
  send_peers_.clear();
  receive_peers_.clear();
  for (std::uint32_t distance = 1; distance < schedule_->ranks; ++distance) {
    const std::uint32_t peer = (schedule_->rank + distance) % schedule_->ranks;
    if (!sends_[peer].messages.empty()) send_peers_.push_back(peer);
  }
  for (std::uint32_t peer = 0; peer < schedule_->ranks; ++peer) {
    if (!receives_[peer].messages.empty()) receive_peers_.push_back(peer);
  }
}

Expected<bool> Executor::advance() {
  for (;;) {
    NF_RETURN_IF_ERROR(transport_->progress());
    settle_sends();
    NF_RETURN_IF_ERROR(start_receives());
    bool has_worked = false;
    for (const auto work :
         {&Executor::start_one_send, &Executor::process_one_receive, &Executor::decode_one}) {
      const Expected<bool> worked = (this->*work)();
      if (!worked) return worked.status();
      if ((has_worked = *worked)) break;
    }
    if (!has_worked) return unsettled_ == 0;
  }
}

Status Executor::start_receives() {
  for (const std::uint32_t peer : receive_peers_) {
    MessageQueue& queue = receives_[peer];
    while (queue.started < queue.messages.size() && queue.started - queue.settled < kWindow) {
      Message& message = queue.messages[queue.started++];
      message.frame = pool_.acquire(codec_.size(message.place, message.step->contributions));
      message.transfer = {.peer = peer, .bytes = message.frame->whole()};
      NF_RETURN_IF_ERROR(transport_->receive(message.transfer));
    }
  }
  return {};
}

Expected<bool> Executor::start_one_send() {
  for (const std::uint32_t peer : send_peers_) {
    MessageQueue& queue = sends_[peer];
    if (queue.started == queue.messages.size() || queue.started - queue.settled >= kWindow)
      continue;
    Message& message = queue.messages[queue.started];
    Outgoing& ready = outgoing(message);
    if (!ready.is_ready) {
      // The message of another rank comes first, unless this rank sends only its own values.
      const bool is_leaf = is_reduce(message.step->kind) && state(message.place).expected == 0;
      const bool is_source = !has_reduce_ && is_owner(message.place);
      if (!is_leaf && !is_source) continue;
      NF_RETURN_IF_ERROR(encode_own(message.place, ready));
    }
    message.frame = ready.frame;
    message.transfer = {.peer = peer, .bytes = message.frame->whole()};
    ++queue.started;
    count_sent(message);
    NF_RETURN_IF_ERROR(transport_->send(message.transfer));
    return true;
  }
  return false;
}

void Executor::count_sent(const Message& message) {
  std::uint64_t header = kFrameHeaderBytes;
  codec_.for_each_size(message.place, message.step->contributions,
                       [&](std::uint32_t part, std::size_t size) {
                         const std::uint64_t bytes = size + std::exchange(header, 0);
                         sent_[part].bytes += bytes;
                         if (!is_reduce(message.step->kind)) sent_[part].sums += bytes;
                       });
}

void Executor::settle_sends() {
  for (const std::uint32_t peer : send_peers_) {
    MessageQueue& queue = sends_[peer];
    for (std::size_t i = queue.settled; i < queue.started; ++i) {
      Message& message = queue.messages[i];
      if (message.is_settled || !message.transfer.is_done) continue;
      message.is_settled = true;
      --unsettled_;
      release(outgoing(message));
    }
    while (queue.settled < queue.started && queue.messages[queue.settled].is_settled)
      ++queue.settled;
  }
}

Expected<bool> Executor::process_one_receive() {
  for (const std::uint32_t peer : receive_peers_) {
    MessageQueue& queue = receives_[peer];
    for (std::size_t i = queue.settled; i < queue.started; ++i) {
      Message& message = queue.messages[i];
      if (message.is_settled || !message.transfer.is_done) continue;
      const bool is_fold = message.step->kind == StepKind::kReduceReceive;
      if (is_fold && message.order != state(message.place).folded) continue;
      NF_RETURN_IF_ERROR(
          message.frame->open(kind_, frame_place(message.place, is_fold), message.transfer));
      NF_RETURN_IF_ERROR(is_fold ? fold(message) : accept(message));
      message.is_settled = true;
      --unsettled_;
      while (queue.settled < queue.started && queue.messages[queue.settled].is_settled)
        ++queue.settled;
      return true;
    }
  }
  return false;
}

// Encodes the rank's own values: the first message for a place or, without reduce steps, the only
// one.
Status Executor::encode_own(Place place, Outgoing& out) {
  const std::uint32_t contributions = has_reduce_ ? 1 : schedule_->ranks;
  Frame* frame = pool_.acquire(codec_.size(place, contributions));
  NF_RETURN_IF_ERROR(codec_.encode(place, {schedule_->rank, contributions}, frame->payload()));
  frame->seal(kind_, frame_place(place, has_reduce_));
  publish(out, frame, has_reduce_ ? 1 : gather_sends_[place.chunk]);
  return {};
}

// Adds a message to this rank's partial sum. After the last message for its place, the sum is ready
// to be sent, or stays with the owner.
Status Executor::fold(Message& message) {
  const Place place = message.place;
  SumState& sum = state(place);
  const Origin incoming{message.step->peer, message.step->contributions};
  const Origin total{schedule_->rank, sum.contributions + incoming.contributions};
  const bool is_last = ++sum.folded == sum.expected;
  const bool keeps_sum = is_owner(place) && keeps_sums();
  Frame* held = sum.partial.frame;
  Frame* out = nullptr;
  if (codec_.merges(place) || (is_last && !keeps_sum)) {
    out = pool_.acquire(codec_.size(place, total.contributions));
  }
  NF_RETURN_IF_ERROR(codec_.fold(
      place,
      {.origin = incoming,
       .message = std::as_const(*message.frame).payload(),
       .held_origin = {schedule_->rank, sum.contributions},
       .held = held == nullptr ? std::span<const std::byte>() : std::as_const(*held).payload(),
       .total = total,
       .is_last = is_last,
       .keeps_sum = keeps_sum},
      out == nullptr ? std::span<std::byte>() : out->payload()));
  sum.contributions = total.contributions;
  sum.partial.frame = nullptr;
  if (held != nullptr) pool_.release(held);
  pool_.release(message.frame);
  if (out == nullptr) return {};
  if (!is_last) {
    sum.partial.frame = out;
    return {};
  }
  out->seal(kind_, frame_place(place, !is_owner(place)));
  if (is_owner(place)) {
    publish(sum.finished, out, gather_sends_[place.chunk] + 1);
    to_decode_.push_back(place);
  } else {
    publish(sum.partial, out, 1);
  }
  return {};
}

// Receives a finished message; its bytes are forwarded unchanged.
Status Executor::accept(Message& message) {
  publish(state(message.place).finished, message.frame, gather_sends_[message.place.chunk] + 1);
  to_decode_.push_back(message.place);
  return {};
}

Expected<bool> Executor::decode_one() {
  if (to_decode_.empty()) return false;
  const Place place = to_decode_.back();
  to_decode_.pop_back();
  const Origin origin{schedule_->owners[place.chunk], schedule_->ranks};
  Outgoing& finished = state(place).finished;
  NF_RETURN_IF_ERROR(codec_.decode(place, origin, std::as_const(*finished.frame).payload(),
                                   /*only_merged=*/keeps_sums()));
  release(finished);
  return true;
}

Executor::Outgoing& Executor::outgoing(const Message& message) {
  SumState& sum = state(message.place);
  return is_reduce(message.step->kind) ? sum.partial : sum.finished;
}

void Executor::publish(Outgoing& outgoing, Frame* frame, std::uint32_t users) {
  outgoing = {.frame = frame, .users = users, .is_ready = true};
}

void Executor::release(Outgoing& outgoing) {
  if (--outgoing.users == 0) pool_.release(outgoing.frame);
}

std::string Executor::waiting_for() const {
  const auto first_open = [](const std::vector<MessageQueue>& queues) -> const Message* {
    for (const MessageQueue& queue : queues) {
      for (std::size_t i = queue.settled; i < queue.started; ++i) {
        if (!queue.messages[i].transfer.is_done) return &queue.messages[i];
      }
    }
    return nullptr;
  };
  const auto describe = [](const Message& message, std::string_view verb) {
    return fmt::format("rank {} to {} message {} of chunk {} ({}, round {})", message.step->peer,
                       verb, message.place.index, message.place.chunk,
                       is_reduce(message.step->kind) ? "reduce" : "gather", message.step->round);
  };
  if (const Message* message = first_open(receives_)) return describe(*message, "send");
  if (const Message* message = first_open(sends_)) return describe(*message, "receive");
  return "nothing";
}

}  // namespace nf
