#include "transport/rank_group.h"

#include <algorithm>
#include <utility>

namespace nf {

RankGroup::RankGroup(Transport& whole, std::vector<std::uint32_t> members)
    : whole_(whole), members_(std::move(members)) {
  const auto self = std::find(members_.begin(), members_.end(), whole.rank());
  rank_ = static_cast<std::uint32_t>(self - members_.begin());
}

Status RankGroup::send(Transfer& transfer) {
  transfer.peer = members_[transfer.peer];
  return whole_.send(transfer);
}

Status RankGroup::receive(Transfer& transfer) {
  transfer.peer = members_[transfer.peer];
  return whole_.receive(transfer);
}

}  // namespace nf
