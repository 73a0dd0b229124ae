// The commands of the program that talk to a running weir. Each returns the program's exit status and prints what there
// is to say.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "config/settings.hpp"

namespace weir::proxy::commands {

inline constexpr auto default_admin = "127.0.0.1:9091";

/// Where a command finds the admin listener of a weir, and what it shows there.
struct AdminOptions {
  std::string address = default_admin;  ///< An address, a url with one, or "unix:" and a path.
  /// The file that holds the listener's token; "" means that it is in the environment, as WEIR_ADMIN_TOKEN, or that
  /// there is none. It is no argument, for everyone on the machine sees those.
  std::string token_file{};
};

struct DrainOptions {
  std::string replica;
  AdminOptions admin{};
  bool wait = false, force = false;
  std::chrono::duration<double> wait_at_most{300};  ///< For undrain alone.
};
int drain(const DrainOptions& options);
int undrain(const DrainOptions& options);

struct ReloadOptions {
  AdminOptions admin{};
  /// The settings file of the asked weir, or "". The file is checked first; it says where the admin listener is and
  /// what its token is, where `admin` does not.
  std::string file{};
  bool admin_given = false;
  /// The process to which HUP goes if no admin listener answers; 0 means none.
  int pid = 0;
};
/// Lets a weir reload its settings, waits for the end, and prints what has changed or why nothing has.
int reload(const ReloadOptions& options);

int bypass(const AdminOptions& admin, bool on);

struct ReportOptions {
  AdminOptions admin{};
  std::string last = "15m";
  std::string output{};  ///< A file, "-" for standard output, or "" for a name with the time in it.
  bool json = false;
};
/// Writes a report of the last minutes of a weir, and prints the file's name.
int report(const ReportOptions& options);

struct RolloutOptions {
  std::string action;  ///< start, status, pause, promote or abort.
  std::string name;    ///< "" means the only one there is; for status, all.
  AdminOptions admin{};
  bool json = false;  ///< For status alone.
  std::string to{};   ///< For promote alone: the step, such as "25%"; "" means the next one.
};
int rollout(const RolloutOptions& options);
/// Returns what `weir rollout status` prints of an answer to GET /api/rollout: of one rollout, or of all for "".
std::string rollout_text(const std::string& answer, const std::string& name);

/// The settings of a weir, as its answer to GET /api/settings lists them.
struct ListedSettings {
  config::Listing listing;
  std::vector<std::string> overridden;  ///< By its command line.
};
/// Reads such an answer. Throws std::exception if it is something else.
ListedSettings listed_from(const std::string& answer);

/// Says what a reload would do: from the settings in the file `old`, or from those of the weir at that address.
/// `settings` are those of `file`.
int show_difference(const config::Settings& settings, const std::string& file, const AdminOptions& old);

}  // namespace weir::proxy::commands
