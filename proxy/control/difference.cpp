#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "config/controls.hpp"
#include "config/difference.hpp"
#include "config/load.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

constexpr int wrong_settings = 2;

bool names_a_file(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".toml") || std::filesystem::exists(text, ignored);
}

ListedSettings running(const AdminOptions& admin) {
  return listed_from(body_of(ask_admin(admin_at(admin), "GET", "/api/settings")));
}

/// Settings of the running weir's command line hold over a reload.
void leave_out(const std::vector<std::string>& overridden, config::Listing& listing) {
  std::erase_if(listing.front().keys,
                [&](const auto& one) { return std::ranges::find(overridden, one.key) != overridden.end(); });
}

int show(const config::Listing& before, const config::Listing& after, const std::string& file) {
  const auto changes = config::difference(before, after), only_by_restart = config::needs_restart(before, after);
  for (const auto& change : changes) std::printf("%s\n", config::printable(change).c_str());
  for (const auto& secret : config::cannot_tell(before, after))
    std::printf("%s: set in both; weir shows no secrets, so this cannot tell whether it changes\n",
                config::printable(secret).c_str());
  if (changes.empty()) std::printf("%s: a reload changes nothing\n", file.c_str());
  if (only_by_restart.empty()) return 0;
  for (const auto& change : only_by_restart)
    std::fprintf(stderr, "%s: only a restart changes this\n", config::printable(change).c_str());
  std::fprintf(stderr, "%s: a reload would fail\n", file.c_str());
  return 1;
}

}  // namespace

int show_difference(const config::Settings& settings, const std::string& file, const AdminOptions& old) {
  return run_command("check --diff", [&] {
    if (!names_a_file(old.address)) {
      auto [before, overridden] = running(old);
      auto after = config::listing_of(settings);
      leave_out(overridden, before);
      leave_out(overridden, after);
      return show(before, after, file);
    }
    const auto loaded = config::load_file(old.address);
    if (const auto* before = std::get_if<config::Settings>(&loaded))
      return show(config::listing_of(*before), config::listing_of(settings), file);
    for (const auto& error : std::get<std::vector<config::SettingsError>>(loaded))
      std::fprintf(stderr, "%s\n", error.text().c_str());
    return wrong_settings;
  });
}

}  // namespace weir::proxy::control
