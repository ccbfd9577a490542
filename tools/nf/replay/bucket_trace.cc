#include "nf/replay/bucket_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "nf/plan/shapes.h"
#include "runtime/text_file.h"

namespace nf::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "neuron_fabric.buckets";
constexpr std::string_view kShapes = "shapes:";
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::uint64_t kFirstBucketBytes = std::uint64_t{1} << 20;  // PyTorch's defaults
constexpr std::uint64_t kBucketBytes = std::uint64_t{25} << 20;

// The integer under `key`, or nullopt if it is missing or not in [0, max].
std::optional<std::uint64_t> number(const json& object, const char* key, std::uint64_t max) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return {};
  const auto value = found->get<std::uint64_t>();
  return value <= max ? std::optional(value) : std::nullopt;
}

std::string unknown_key(const json& object, std::initializer_list<std::string_view> known) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      return fmt::format("unknown key '{}'", item.key());
    }
  }
  return {};
}

std::string parse_head(const json& object, BucketTrace& trace) {
  if (!object.is_object() || object.value("format", json()) != json(kFormat)) {
    return fmt::format("not a bucket trace: the first line must have \"format\": \"{}\"", kFormat);
  }
  if (object.value("version", json()) != json(1)) return "unknown 'version'; expected 1";
  if (auto wrong = unknown_key(object, {"format", "version", "name", "workers"}); !wrong.empty()) {
    return wrong;
  }
  if (object.contains("name") && !object["name"].is_string()) return "'name' must be a string";
  trace.name = object.value("name", "");
  if (object.contains("workers")) {
    const auto workers = number(object, "workers", 65'536);
    if (!workers || *workers == 0) return "'workers' must be from 1 to 65,536";
    trace.workers = static_cast<std::uint32_t>(*workers);
  }
  return {};
}

std::string parse_bucket(const json& object, BucketTrace& trace) {
  if (!object.is_object()) return "a bucket must be a JSON object";
  if (auto wrong = unknown_key(object, {"step", "values", "low_bit_values"}); !wrong.empty()) {
    return wrong;
  }
  const auto step = number(object, "step", std::uint64_t{1} << 40);
  const auto values = number(object, "values", kMaxBucketValues);
  const auto low_bit = number(object, "low_bit_values", kMaxBucketValues);
  if (!step || !values || !low_bit) {
    return "'step', 'values' and 'low_bit_values' must be whole numbers, with at most 2^36 values";
  }
  if (*low_bit > *values) return "'low_bit_values' exceeds 'values'";
  trace.buckets.push_back({.step = *step, .values = *values, .low_bit_values = *low_bit});
  return {};
}

Expected<BucketTrace> read_file(const std::string& path) {
  const Expected<std::string> text = read_text_file(path, kMaxBytes);
  if (!text) return text.status();
  BucketTrace trace;
  std::string_view rest = *text;
  bool has_head = false;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view words = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (words.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json object = json::parse(words, nullptr, false);
    std::string wrong;
    if (object.is_discarded()) {
      wrong = "not valid JSON";
    } else {
      wrong = has_head ? parse_bucket(object, trace) : parse_head(object, trace);
    }
    if (!wrong.empty()) {
      return Status(ErrorCode::kBadConfig, fmt::format("{}:{}: {}", path, line, wrong));
    }
    has_head = true;
  }
  if (trace.buckets.empty()) {
    return Status(ErrorCode::kBadConfig, fmt::format("{}: the trace has no buckets", path));
  }
  return trace;
}

// Fills buckets from the last parameter to the first, the order of the backward pass, as DDP does.
Expected<BucketTrace> make_from_shapes(const std::string& path) {
  const Expected<ModelShapes> model = read_shapes(path);
  if (!model) return model.status();
  BucketTrace trace;
  trace.name = model->name;
  const auto& parameters = model->parameters;
  std::size_t head = parameters.size();  // the last matrix
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].rows > 0) head = i;
  }
  BucketTraffic bucket;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    bucket.values += parameters[i].count;
    const bool is_dense = parameters[i].rows == 0 || i == head;
    if (!is_dense) bucket.low_bit_values += parameters[i].count;
    const std::uint64_t size = trace.buckets.empty() ? kFirstBucketBytes : kBucketBytes;
    if (bucket.bytes() >= size || i == 0) {
      trace.buckets.push_back(bucket);
      bucket = {};
    }
  }
  if (trace.buckets.empty()) {
    return Status(ErrorCode::kBadConfig, fmt::format("{}: the model has no parameters", path));
  }
  return trace;
}

}  // namespace

Expected<BucketTrace> read_bucket_trace(const std::string& source) {
  if (source.starts_with(kShapes)) return make_from_shapes(source.substr(kShapes.size()));
  return read_file(source);
}

}  // namespace nf::cli
