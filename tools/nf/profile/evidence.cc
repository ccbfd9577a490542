#include "nf/profile/evidence.h"

#include <fmt/format.h>

#include <string_view>

#include "nf/support/table.h"

namespace nf::cli {
namespace {

using Json = nlohmann::ordered_json;

// The list under `key`, or an empty one.
const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? printable(found->get<std::string>()) : "-";
}

bool is_number(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number();
}

// `format` is a format string of fmt, such as "{:.3f}".
std::string number_of(const Json& row, const char* key, std::string_view format) {
  return is_number(row, key) ? fmt::format(fmt::runtime(format), row[key].get<double>()) : "-";
}

std::string share_of(const Json& row, const char* part, const char* whole) {
  if (!is_number(row, part) || !is_number(row, whole) || row[whole].get<double>() <= 0) return "-";
  return fmt::format("{:.2f} %", 100 * row[part].get<double>() / row[whole].get<double>());
}

std::string percent_of(const Json& row, const char* key) {
  return is_number(row, key) ? fmt::format("{:.2f} %", 100 * row[key].get<double>()) : "-";
}

bool is_true(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && *found == true;
}

// The increase of the loss. A route that was tried and has no number has diverged.
std::string harm_of(const Json& row) {
  if (!is_number(row, "pairs") || row["pairs"].get<double>() <= 0) return "-";
  return is_number(row, "harm") ? number_of(row, "harm", "{:+.4f}") : "diverged";
}

std::string routes_of(const Json& row) {
  const auto found = row.find("routes");
  if (found == row.end() || !found->is_object()) return "-";
  std::string text;
  for (const auto& [region, route] : found->items()) {
    if (!text.empty()) text += ", ";
    text += region + '=' + (route.is_string() ? route.get<std::string>() : route.dump());
  }
  return text.empty() ? "all dense" : printable(text);
}

std::string routes_table(const Json& rows) {
  Table table({{.title = "evidence", .is_text = true},
               {.title = "route", .is_text = true},
               {.title = "of its bytes"},
               {.title = "error"},
               {.title = "slope"},
               {.title = "signs kept"},
               {.title = "harm alone"},
               {.title = "+/-"},
               {.title = "", .is_text = true}});
  for (const Json& row : rows) {
    if (!row.is_object()) continue;
    table.add({text_of(row, "region"), text_of(row, "route"),
               share_of(row, "bytes_up", "dense_bytes"), number_of(row, "error", "{:.2e}"),
               number_of(row, "slope", "{:.3f}"), percent_of(row, "agreement"), harm_of(row),
               number_of(row, "standard_error", "{:.4f}"), is_true(row, "chosen") ? "chosen" : ""});
  }
  return table.text();
}

std::string branches_table(const Json& rows) {
  Table table({{.title = "branches", .is_text = true},
               {.title = "from", .is_text = true},
               {.title = "bytes up"},
               {.title = "harm"},
               {.title = "+/-"},
               {.title = "pairs"},
               {.title = "", .is_text = true}});
  for (const Json& row : rows) {
    if (!row.is_object() || routes_of(row) == "all dense") continue;
    std::string verdict = is_true(row, "within_target") ? "within the target" : "too much";
    if (is_true(row, "chosen")) verdict += ", chosen";
    table.add({routes_of(row), text_of(row, "start"), percent_of(row, "bytes_up_ratio"),
               harm_of(row), number_of(row, "standard_error", "{:.4f}"),
               number_of(row, "pairs", "{:.0f}"), verdict});
  }
  return table.text();
}

}  // namespace

bool is_evidence(const std::string& key) {
  return key == "routes" || key == "table" || key == "evidence";
}

std::string evidence_tables(const Json& provenance) {
  std::string text;
  if (const Json& rows = list_of(provenance, "routes"); !rows.empty()) text += routes_table(rows);
  if (const Json& rows = list_of(provenance, "table"); !rows.empty()) {
    text += (text.empty() ? "" : "\n") + branches_table(rows);
  }
  return text;
}

}  // namespace nf::cli
