#include "neuron_fabric/status.h"

namespace nf {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk: return "ok";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kBadConfig: return "bad_config";
    case ErrorCode::kCorruptFrame: return "corrupt_frame";
    case ErrorCode::kForeignFrame: return "foreign_frame";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kDisagreement: return "disagreement";
    case ErrorCode::kPeerLost: return "peer_lost";
    case ErrorCode::kAborted: return "aborted";
    case ErrorCode::kDeadlineExceeded: return "deadline_exceeded";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
  }
  return "unknown";
}

std::string to_string(const Status& status) {
  if (status.ok()) return "ok";
  return std::string(to_string(status.code())) + ": " + status.message();
}

}  // namespace nf
