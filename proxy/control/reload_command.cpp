#include <signal.h>
#include <simdjson.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <variant>

#include "config/address.hpp"
#include "config/controls.hpp"
#include "config/load.hpp"
#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
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

}  // namespace weir::proxy::control
