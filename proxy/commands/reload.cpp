// weir reload, and what one would do: weir check --diff.
#include <signal.h>
#include <simdjson.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <variant>

#include "config/address.hpp"
#include "config/controls.hpp"
#include "config/difference.hpp"
#include "config/load.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::commands {
namespace {

constexpr int settings_are_wrong = 2;
constexpr std::chrono::milliseconds between_tries{100};
/// Another reload that is under way ends within this time.
constexpr std::chrono::seconds other_reload_ends_within{30};

void print_all(std::FILE* to, simdjson::dom::array texts) {
  for (const std::string_view text : texts) std::fprintf(to, "%s\n", config::printable(text).c_str());
}

int ask_for_reload(const Admin& admin) {
  const auto until = std::chrono::steady_clock::now() + other_reload_ends_within;
  for (;; std::this_thread::sleep_for(between_tries)) {
    const auto answered = ask_admin(admin, "POST", "/-/reload", "{}");
    simdjson::dom::parser parser;
    const auto told = parser.parse(answered.body);
    if (answered.status == 200 && told.error() == simdjson::SUCCESS) {
      const simdjson::dom::array changes = told["changes"];
      if (changes.size() == 0) std::printf("reloaded: nothing has changed\n");
      print_all(stdout, changes);
      return 0;
    }
    std::string_view code;
    if (told["error"]["code"].get(code)) code = "";
    if (code == "reload_under_way" && std::chrono::steady_clock::now() < until) continue;
    if (code == "bad_settings") print_all(stderr, told["errors"]);
    throw std::runtime_error(error_message(answered));
  }
}

int send_hup(int pid) {
  if (::kill(pid, SIGHUP) != 0)
    throw std::runtime_error("cannot send HUP to process " + std::to_string(pid) + ": " +
                             std::generic_category().message(errno) + "; name the process of weir");
  std::printf("HUP sent to process %d: weir's log says how the reload ends\n", pid);
  return 0;
}

/// Where to ask: as the command line says, and for the rest as the settings file does. Nothing if no listener is on.
std::optional<Admin> where_to_ask(const ReloadOptions& options, const config::Settings* settings) {
  if (settings != nullptr && !options.admin_given && !settings->admin.listen) return std::nullopt;
  auto where = options.admin;
  if (settings != nullptr && !options.admin_given) where.address = config::to_text(*settings->admin.listen);
  auto admin = admin_at(where);
  if (settings != nullptr && admin.token.empty()) admin.token = settings->admin.token;
  return admin;
}

int ask_or_send(const ReloadOptions& options, const config::Settings* settings) {
  const auto admin = where_to_ask(options, settings);
  if (!admin) {
    if (options.pid != 0) return send_hup(options.pid);
    throw std::runtime_error(options.file +
                             " switches the admin listener off, so nobody can be asked; name weir's process by --pid");
  }
  try {
    return ask_for_reload(*admin);
  } catch (const NoWeir& nobody) {
    if (options.pid == 0) throw;
    std::fprintf(stderr, "weir reload: %s\n", nobody.what());
    return send_hup(options.pid);
  }
}

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

int reload(const ReloadOptions& options) {
  return run_command("reload", [&] {
    if (options.file.empty()) return ask_or_send(options, nullptr);
    const auto loaded = config::load_file(options.file);
    if (const auto* settings = std::get_if<config::Settings>(&loaded)) return ask_or_send(options, settings);
    for (const auto& error : std::get<std::vector<config::SettingsError>>(loaded))
      std::fprintf(stderr, "%s\n", error.text().c_str());
    return settings_are_wrong;
  });
}

ListedSettings listed_from(const std::string& text) {
  using simdjson::dom::array, simdjson::dom::object;
  const auto text_of = [](const auto& value) { return std::string(value.get_string().value()); };
  ListedSettings listed_settings;
  simdjson::dom::parser parser;
  const auto parsed = parser.parse(text);
  for (const auto one : array(parsed["settings"])) {
    config::Listed listed{text_of(one["name"]), text_of(one["within"]), {}};
    for (const auto& [key, value] : object(one["keys"])) listed.keys.push_back({std::string(key), text_of(value)});
    listed_settings.listing.push_back(std::move(listed));
  }
  for (const auto one : array(parsed["overridden"])) listed_settings.overridden.push_back(text_of(one));
  return listed_settings;
}

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
    return settings_are_wrong;
  });
}

}  // namespace weir::proxy::commands
