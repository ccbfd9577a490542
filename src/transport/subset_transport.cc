#include "transport/subset_transport.h"

#include <algorithm>
#include <utility>

#include "transport/peer_status.h"

namespace nf {

SubsetTransport::SubsetTransport(Transport& whole, std::vector<std::uint32_t> members)
    : whole_(whole), members_(std::move(members)) {
  const auto self = std::find(members_.begin(), members_.end(), whole.rank());
  rank_ = static_cast<std::uint32_t>(self - members_.begin());
}

Status SubsetTransport::send(Transfer& transfer) { return start(transfer, &Transport::send); }

Status SubsetTransport::receive(Transfer& transfer) { return start(transfer, &Transport::receive); }

Status SubsetTransport::start(Transfer& transfer, Status (Transport::*operation)(Transfer&)) {
  const std::uint32_t member = transfer.peer;
  NF_RETURN_IF_ERROR(check_peer(member, rank_, ranks()));
  transfer.peer = members_[member];
  Status status = (whole_.*operation)(transfer);
  transfer.peer = member;
  return status;
}

}  // namespace nf
