// Reads JSON that a person may have typed or a stranger sent: within limits, without exceptions,
// and with messages that name the place and the nearest known word. Messages are valid UTF-8 and
// of bounded length, whatever the text.
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

// Objects and arrays within one another.
inline constexpr std::size_t kMostJsonDepth = 32;

// Fails with kBadConfig where the text is no JSON or nested too deeply, and where an object has a
// key twice.
Expected<Json> parse_json(std::string_view text);

// Cut where it is long, without control characters; the second in quotes.
std::string legible(std::string_view text);
std::string in_quotes(std::string_view text);

// "; did you mean 'names'?", or nothing where no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

// "regions[2]".
std::string element_path(std::string_view array, std::size_t index);

// One object of a document, which it borrows. Messages begin with the path to what is wrong.
class JsonObject {
 public:
  // Fails where `json` is no object or has keys other than `known`. `path` is empty for the whole
  // document.
  static Expected<JsonObject> open(const Json& json, std::string path,
                                   std::span<const std::string_view> known);

  // Null where there is no such key.
  const Json* find(std::string_view key) const;
  // As "regions[0].names".
  std::string path_of(std::string_view key) const;

  // Fails where a key is missing.
  Status require(std::span<const std::string_view> keys) const;

  // Each leaves `out` alone where there is no such key, and fails where the key holds something
  // else. A whole number may be spelled 20 or 20.0, and is at most 2^53.
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
