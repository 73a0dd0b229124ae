// The real program `weir`, started with a settings file of the test's own, asked over its listeners, and stopped with
// TERM. A weir that does not end with exit code 0 fails the test, whatever else the test looked at.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/peers/http_client.hpp"
#include "tests/integration/peers/metrics_page.hpp"
#include "tests/integration/peers/process.hpp"
#include "tests/integration/peers/scripted_replica.hpp"

namespace weir::integration {

using Keys = std::map<std::string, std::string>;  ///< TOML keys and values, as written.

struct ReplicaKeys {
  std::string name;
  std::string url;
  Keys more = {};
};

struct PoolKeys {
  std::string name;
  std::vector<ReplicaKeys> replicas;
  Keys more = {};
};

using ShadowKeys = PoolKeys;

/// Returns the path of the program: that of the same build, or the one that WEIR_PROGRAM names in the environment.
std::string weir_program();
/// Runs weir, or weir-lab, with these words to its end. Throws TimedOut.
Finished run_weir(std::vector<std::string> words);
Finished run_lab(std::vector<std::string> words);

/// Reads JSON objects, one a line; a last line without its end is left out.
std::vector<boost::json::object> json_lines(const std::string& text);

/// A test changes what it wants to differ. The defaults are two loops, no drain delay, ports of its own, and pools that
/// name their model "m" and let no request wait.
struct WeirSettings {
  std::vector<PoolKeys> pools;
  Keys server = {};
  Keys limits = {};
  Keys measure = {};
  Keys metrics = {};
  Keys admin = {};  ///< The admin listener is off without keys.
  std::vector<Keys> slos = {};
  Keys log = {};
  Keys health = {};
  Keys engine = {};
  Keys discovery = {};
  std::vector<ShadowKeys> shadows = {};
  std::vector<Keys> rollouts = {};
};

/// Makes one pool "chat" of the replicas given, named r0, r1, ...
WeirSettings pool_of(std::initializer_list<const ScriptedReplica*> replicas);

class WeirUnderTest {
 public:
  /// Returns when weir says that it is ready, but for replicas. `through` is a command that starts weir's.
  explicit WeirUnderTest(const WeirSettings& settings, const std::vector<std::string>& through = {});
  ~WeirUnderTest();
  WeirUnderTest(const WeirUnderTest&) = delete;
  WeirUnderTest& operator=(const WeirUnderTest&) = delete;

  std::uint16_t port() const { return port_; }
  std::uint16_t metrics_port() const { return metrics_port_; }
  Process& process() { return process_; }
  const Process& process() const { return process_; }
  std::filesystem::path settings_file() const { return directory_.path() / "weir.toml"; }
  /// Writes other settings into its file. It does not look there by itself.
  void rewrite(const WeirSettings& settings) const;
  /// Writes other settings, sends HUP, and returns once weir has said `words`.
  void reload(const WeirSettings& settings, const std::string& words = "reload (SIGHUP)");
  /// Returns what it said on standard output and standard error.
  std::string output() const { return read_file(directory_.path() / "output"); }
  std::filesystem::path log_file() const { return directory_.path() / "requests.jsonl"; }
  std::string log_text() const { return read_file(log_file()); }
  /// Returns once it has said `words`, so many times.
  void wait_until_said(const std::string& words, std::size_t times = 1) const;

  MetricsPage metrics() const;
  /// Returns the metrics once they fulfil `wanted`, where nothing else shows when that is. Throws TimedOut.
  MetricsPage metrics_when(const std::string& what, const std::function<bool(const MetricsPage&)>& wanted) const;
  /// Returns the metrics once so many requests have their line in the log, whatever their outcome. weir writes the line
  /// when it has counted all else of a request; a page scraped before that may show one series and not yet the other.
  MetricsPage metrics_after(std::size_t requests) const;
  /// Returns all whole lines of the request log.
  std::vector<boost::json::object> all_log_lines() const { return json_lines(log_text()); }
  /// Returns the first `n` lines of the request log, once they are there.
  std::vector<boost::json::object> log_lines(std::size_t n) const;

  /// Sends TERM and waits for its end in good order. The destructor does it if the test has not.
  void stop();
  /// Waits for that end after a TERM that the test has sent.
  void ends();
  /// Fails the test unless weir's last words count the lines of its log: all, and those that were answered well. It has
  /// ended.
  void expect_last_words() const;

 private:
  static std::string text(const WeirSettings& settings, std::uint16_t port, std::uint16_t metrics_port,
                          const std::filesystem::path& log);
  void wait_until_ready();

  TemporaryDirectory directory_;
  std::uint16_t port_, metrics_port_;
  Process process_;
  bool stopped_ = false;
};

/// Makes one pool "chat" of a replica r0 at this URL.
WeirSettings pool_at(const std::string& url, Keys of_replica = {});

/// The same settings, with an admin listener at this port.
WeirSettings with_admin(WeirSettings settings, std::uint16_t admin);
/// Asks the admin listener for a page, or for a change.
Response get_admin(std::uint16_t admin, const std::string& path);
Response post_admin(std::uint16_t admin, const std::string& path);

/// Returns the x-weir-replica of a chat request's answer, which has to be well.
std::string who_answers(const WeirUnderTest& weir);

/// Returns a member as text: a string without its quotes, anything else as JSON; "absent" if it is missing.
std::string member(const boost::json::object& object, std::string_view name);

/// Returns a gauge that is not zero and is at rest, with its value; "" if there is none.
std::string full_book(const MetricsPage& page);
/// Fails the test unless every gauge of the ledger is zero, and shows which is not.
void expect_idle(const MetricsPage& page);

/// Runs `weir serve` to its end with a settings file that holds `text`, for settings that it must refuse.
Finished serve_with(std::string_view text);

}  // namespace weir::integration
