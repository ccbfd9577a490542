#include "runtime/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "neuron_fabric/codec_spec.h"

namespace nf {
namespace {

constexpr std::size_t kMaxQuote = 64;
constexpr std::size_t kMaxParserMessage = 300;
constexpr double kMaxWhole = 9007199254740992;  // 2^53: a double represents all below

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// The first pass over a text: finds duplicate keys, which a parsed tree would hide, and deep
// nesting.
class Inspector final : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return value(); }
  bool boolean(bool /*value*/) override { return value(); }
  bool number_integer(number_integer_t /*value*/) override { return value(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return value(); }
  bool string(string_t& /*value*/) override { return value(); }
  bool binary(binary_t& /*value*/) override { return value(); }

  bool start_object(std::size_t /*size*/) override { return enter(true); }
  bool start_array(std::size_t /*size*/) override { return enter(false); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& key) override {
    if (!open_.back().keys.insert(key).second) {
      return fail(fmt::format("{}key {} is given twice", place(), in_quotes(key)));
    }
    open_.back().key = key;
    return true;
  }

  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const Json::exception& error) override {
    const std::string_view what = error.what();
    std::string text(what.substr(what.find("] ") + 2).substr(0, kMaxParserMessage));
    // It quotes the text, which may be invalid UTF-8.
    const auto is_foreign = [](char c) {
      return is_control(c) || static_cast<unsigned char>(c) > 0x7f;
    };
    std::replace_if(text.begin(), text.end(), is_foreign, '?');
    return fail(std::move(text));
  }

 private:
  // An object or array in progress.
  struct Open {
    bool is_object = false;
    std::set<std::string> keys = {};
    std::string key = {};    // in an object: the current one
    std::size_t values = 0;  // in an array: the number begun
  };

  bool value() {
    if (!open_.empty()) ++open_.back().values;
    return true;
  }

  bool enter(bool is_object) {
    value();
    if (open_.size() == kMaxJsonDepth) {
      return fail(fmt::format("{}nested more than {} deep", place(), kMaxJsonDepth));
    }
    open_.push_back({.is_object = is_object});
    return true;
  }

  bool leave() {
    open_.pop_back();
    return true;
  }

  // The path of the innermost object or array: "regions[0]: ".
  std::string place() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const Open& open = open_[i];
      if (!open.is_object) {
        path = element_path(path, open.values - 1);
      } else {
        path += (path.empty() ? "" : ".") + legible(open.key);
      }
    }
    return path.empty() ? path : path + ": ";
  }

  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  std::vector<Open> open_;
  std::string error_;
};

std::optional<std::uint64_t> whole(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(kMaxWhole)) return {};
    return number;
  }
  if (!json.is_number_float()) return {};
  const auto number = json.get<double>();
  if (!(number >= 0 && number <= kMaxWhole) || number != std::floor(number)) return {};
  return static_cast<std::uint64_t>(number);
}

}  // namespace

Expected<Json> parse_json(std::string_view text) {
  Inspector inspector;
  if (!Json::sax_parse(text, &inspector)) return bad(inspector.error());
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string legible(std::string_view text) {
  std::size_t size = text.size();
  if (size > kMaxQuote) {
    size = kMaxQuote;
    // Do not split a UTF-8 character.
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  }
  std::string shown(text.substr(0, size));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return shown + (size < text.size() ? "..." : "");
}

std::string in_quotes(std::string_view text) { return "'" + legible(text) + "'"; }

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  // The distance of two long texts is slow to compute and useless.
  const std::string_view hint = nearest(word.substr(0, kMaxQuote), known);
  return hint.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(hint));
}

std::string element_path(std::string_view array, std::size_t index) {
  return fmt::format("{}[{}]", array, index);
}

Expected<JsonObject> JsonObject::open(const Json& json, std::string path,
                                      std::span<const std::string_view> known) {
  const std::string place = path.empty() ? "" : path + ": ";
  if (!json.is_object()) return bad(fmt::format("{}expected an object, {{...}}", place));
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return bad(fmt::format("{}unknown key {}{}", place, in_quotes(key), did_you_mean(key, known)));
  }
  return JsonObject(json, std::move(path));
}

const Json* JsonObject::find(std::string_view key) const {
  const auto found = json_->find(key);
  return found == json_->end() ? nullptr : &*found;
}

std::string JsonObject::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Status JsonObject::require(std::span<const std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (find(key) == nullptr) return bad(fmt::format("{} is missing", path_of(key)));
  }
  return {};
}

Status JsonObject::is_not(std::string_view key, std::string_view what) const {
  return bad(fmt::format("{} is not {}", path_of(key), what));
}

Status JsonObject::read(std::string_view key, std::string& out) const {
  const Json* json = find(key);
  if (json == nullptr) return {};
  if (!json->is_string()) return is_not(key, "a string in quotes");
  out = json->get<std::string>();
  return {};
}

Status JsonObject::read(std::string_view key, std::vector<std::string>& out) const {
  const Json* json = find(key);
  if (json == nullptr) return {};
  const auto is_text = [](const Json& element) { return element.is_string(); };
  if (!json->is_array() || !std::all_of(json->begin(), json->end(), is_text)) {
    return is_not(key, "a list of strings, [\"...\", ...]");
  }
  out = json->get<std::vector<std::string>>();
  return {};
}

Status JsonObject::read(std::string_view key, bool& out) const {
  const Json* json = find(key);
  if (json == nullptr) return {};
  if (!json->is_boolean()) return is_not(key, "true or false");
  out = json->get<bool>();
  return {};
}

Status JsonObject::read(std::string_view key, double& out) const {
  const Json* json = find(key);
  if (json == nullptr) return {};
  if (!json->is_number()) return is_not(key, "a number");
  out = json->get<double>();
  return {};
}

Status JsonObject::read(std::string_view key, std::uint64_t& out) const {
  const Json* json = find(key);
  if (json == nullptr) return {};
  const std::optional<std::uint64_t> number = whole(*json);
  if (!number) return is_not(key, "a whole number from 0 to 2^53");
  out = *number;
  return {};
}

Status JsonObject::read(std::string_view key, std::uint32_t& out) const {
  std::uint64_t wide = out;
  NF_RETURN_IF_ERROR(read(key, wide));
  if (wide > std::numeric_limits<std::uint32_t>::max()) {
    return is_not(key, "a whole number below 2^32");
  }
  out = static_cast<std::uint32_t>(wide);
  return {};
}

}  // namespace nf
