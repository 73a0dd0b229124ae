#include "proxy/http/cors_memory.hpp"

#include <algorithm>
#include <array>

#include "proxy/http/head_lines.hpp"

namespace weir::proxy::http {
namespace {

constexpr std::string_view allow_origin = "Access-Control-Allow-Origin";
constexpr std::array<std::string_view, 3> noted_fields{allow_origin, "Access-Control-Allow-Credentials",
                                                       "Access-Control-Expose-Headers"};

/// The gate lets only a tab through of all control characters. A line of weir's own head must not have that either.
bool is_harmless(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

}  // namespace

void CorsMemory::note(std::string_view origin, const ResponseHead& answer) {
  if (origin.empty() || origin == "*" || !is_harmless(origin)) return;
  const auto allowed = answer[allow_origin];
  if (allowed.empty()) {
    // Servers leave these fields out of some of their errors.
    if (answer.status / 100 != 2) return;
    const std::lock_guard lock(mutex_);
    forget(origin);
    forget("*");
    return;
  }
  OriginFields noted;
  noted.origin = allowed == "*" ? "*" : origin;
  for (const auto name : noted_fields) {
    const auto value = answer[name];
    if (!is_harmless(value)) return;
    if (!value.empty()) add_field(noted.fields, name, value);
  }
  if (allowed != "*") noted.fields += "Vary: Origin\r\n";
  if (noted.origin.size() + noted.fields.size() > longest) return;

  const std::lock_guard lock(mutex_);
  forget(noted.origin);
  noted_.push_back(std::move(noted));
  const auto is_any = [](const OriginFields& one) { return one.origin == "*"; };
  if (noted_.size() > most_origins + (std::ranges::any_of(noted_, is_any) ? 1 : 0))
    noted_.erase(std::ranges::find_if_not(noted_, is_any));
}

std::string CorsMemory::fields_for(std::string_view origin) const {
  if (origin.empty()) return {};
  const std::lock_guard lock(mutex_);
  const OriginFields* found = nullptr;
  for (const auto& one : noted_)
    if (one.origin == origin || (one.origin == "*" && found == nullptr)) found = &one;
  return found == nullptr ? std::string() : found->fields;
}

void CorsMemory::forget(std::string_view origin) {
  std::erase_if(noted_, [&](const OriginFields& one) { return one.origin == origin; });
}

}  // namespace weir::proxy::http
