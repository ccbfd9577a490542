// Reads untrusted JSON: with limits, without exceptions, and with messages that contain the
// position and the nearest known word. Messages are valid UTF-8 and of bounded length for any
// input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf {

using Json = nlohmann::json;

// The maximum nesting of objects and arrays.
inline constexpr std::size_t kMaxJsonDepth = 32;

// Fails with kBadConfig if the text is not JSON, is nested too deeply, or an object has a duplicate
// key.
Expected<Json> parse_json(std::string_view text);

// The text without control characters, truncated if it is long; the second also in quotes.
std::string legible(std::string_view text);
std::string in_quotes(std::string_view text);

// "; did you mean 'names'?", or empty if no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

// "regions[2]".
std::string element_path(std::string_view array, std::size_t index);

// One object of a document, which it borrows. Messages begin with the path of the error.
class JsonObject {
 public:
  // Fails if `json` is not an object or has keys other than `known`. `path` is empty for the whole
  // document.
  static Expected<JsonObject> open(const Json& json, std::string path,
                                   std::span<const std::string_view> known);

  // Null if there is no such key.
  const Json* find(std::string_view key) const;
  // For example "regions[0].names".
  std::string path_of(std::string_view key) const;

  // Fails if a key is missing.
  Status require(std::span<const std::string_view> keys) const;

  // If there is no such key, `out` stays unchanged. Fails if the value has another type. A whole
  // number may be written as 20 or 20.0, and is at most 2^53.
  Status read(std::string_view key, std::string& out) const;
  Status read(std::string_view key, std::vector<std::string>& out) const;
  Status read(std::string_view key, bool& out) const;
  Status read(std::string_view key, double& out) const;
  Status read(std::string_view key, std::uint64_t& out) const;
  Status read(std::string_view key, std::uint32_t& out) const;

 private:
  JsonObject(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  Status is_not(std::string_view key, std::string_view what) const;

  const Json* json_;
  std::string path_;
};

}  // namespace nf
