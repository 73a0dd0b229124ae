#include "tests/integration/model/operation.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace weir::model {
namespace {

constexpr auto rows = std::to_array<VerbRow>({
    {Verb::add_replica, "add-replica", 3, "adds one to pool a"},
    {Verb::remove_replica, "remove-replica", 5, "removes the a-th, unless it is the last of its pool"},
    {Verb::rename_replica, "rename-replica", 2, "gives the a-th another name"},
    {Verb::move_replica, "move-replica", 2, "gives the a-th another url"},
    {Verb::limit_replica, "limit-replica", 6, "lets the a-th have b requests at a time; 0: any number"},
    {Verb::add_pool, "add-pool", 3, "adds the second pool"},
    {Verb::remove_pool, "remove-pool", 1, "removes the second pool"},
    {Verb::rename_pool, "rename-pool", 1, "gives the first pool another name"},
    {Verb::limit_pool, "limit-pool", 2, "lets the first pool have b requests at a time; 0: any number"},
    {Verb::add_shadow, "add-shadow", 4, "mirrors the first pool"},
    {Verb::remove_shadow, "remove-shadow", 2, "mirrors it no more"},
    {Verb::add_key, "add-key", 2, "gives out another key, with a limit of b"},
    {Verb::revoke_key, "revoke-key", 2, "takes the a-th key back, unless it is the last"},
    {Verb::limit_key, "limit-key", 3, "lets the a-th key have b requests at a time; 0: any number"},
    {Verb::narrow_key, "narrow-key", 2, "lets the a-th key use only the second pool's model, or any again"},
    {Verb::switch_keys, "switch-keys", 1, "clients need keys, or need none any more"},
    {Verb::switch_tls, "switch-tls", 5, "clients speak TLS, or plain HTTP again"},
    {Verb::change_certificate, "change-certificate", 3, "replaces the certificate"},
    {Verb::change_limits, "change-limits", 2,
     "takes the a-th policy, with or without prefix_aware, and the b-th length of the queue"},
    {Verb::reload_wrongly, "reload-wrongly", 3, "reloads settings that are wrong in the b-th way"},
    {Verb::answer_names, "answer-names", 4, "has DNS answer the addresses whose bits are set in b"},
    {Verb::drain, "drain", 4, "drains the a-th replica"},
    {Verb::undrain, "undrain", 3, "lets it take requests again"},
    {Verb::switch_bypass, "switch-bypass", 1, "switches the bypass on or off"},
    {Verb::switch_shadow, "switch-shadow", 3, "switches the shadow on or off"},
    {Verb::reopen_log, "reopen-log", 1, "sends USR1"},
    {Verb::kill, "kill", 2, "ends the a-th replica's process"},
    {Verb::hang, "hang", 2, "stops it without a word"},
    {Verb::fail, "fail", 2, "has it answer 500"},
    {Verb::mend, "mend", 3, "has it do well again"},
    {Verb::await_out, "await-out", 2, "waits until weir has taken out who is dead or hangs"},
    {Verb::single_out, "single-out", 5,
     "one client of the pool beside is 0: limited, 1: limited for a moment, 2: invalid,\n"
     "                      3: at a route of nobody's, while replica a lacks chats, 4: at an adapter of\n"
     "                      replica a, 5: in conversations, 6: deadly, 7: numbing"},
    {Verb::spoil, "spoil", 4,
     "replica a of the pool beside 0: does well, 1: gives nothing, 2: one token, 3: a page,\n"
     "                      4: sleeps, 5: has an ill health path, 6: crashes again and again"},
    {Verb::stop_process, "stop-process", 2, "stops the a-th simulated replica (SIGSTOP); key a has b + 2 requests"},
    {Verb::go_on, "go-on", 3, "lets it go on, once it was out for a while"},
    {Verb::hold, "hold", 12, "key a begins a stream of model b that lasts"},
    {Verb::release, "release", 7, "the a-th stream comes to its end"},
    {Verb::leave, "leave", 3, "the client of the a-th stream leaves"},
    {Verb::ask, "ask", 6, "key a asks for a short answer of model b, streamed if b is even"},
    {Verb::ask_badly, "ask-badly", 3, "key a sends b + 1 requests that a replica answers 400"},
    {Verb::ask_slowly, "ask-slowly", 1, "key a asks for a stream whose first token takes 7 s"},
    {Verb::crowd, "crowd", 4, "key a sends b + 2 requests at once, every other a bad one"},
    {Verb::stall, "stall", 2, "key a sends the beginning of a body"},
    {Verb::pipeline, "pipeline", 1, "asks /health many times at once on one connection"},
    {Verb::come_back, "come-back", 3, "so many ask at once that some are told to come back later, and do"},
    {Verb::besiege, "besiege", 3, "strangers send heads or bodies without end; b says how"},
    {Verb::change_keys, "change-keys", 3, "a client changes its TLS keys without end"},
    {Verb::flood, "flood", 2, "250 (b + 1) streams begin, and their clients leave"},
});

unsigned number(const std::string& word) {
  try {
    std::size_t end = 0;
    const auto value = std::stoul(word, &end);
    if (end == word.size() && value < 1000) return static_cast<unsigned>(value);
  } catch (const std::exception&) {
  }
  throw std::invalid_argument("'" + word + "' is no number from 0 to 999");
}

}  // namespace

std::span<const VerbRow> verbs() { return rows; }

std::string_view name_of(Verb verb) { return std::ranges::find(rows, verb, &VerbRow::verb)->name; }

std::string in_one_line(const Script& script) {
  std::string text;
  for (const auto& [verb, a, b] : script) {
    if (!text.empty()) text += "; ";
    text += name_of(verb);
    if (a != 0 || b != 0) text += ' ' + std::to_string(a);
    if (b != 0) text += ' ' + std::to_string(b);
  }
  return text;
}

Script parse(std::string_view text) {
  std::string lines(text);
  std::ranges::replace(lines, ';', '\n');
  Script script;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) continue;
    const auto row = std::ranges::find(rows, word, &VerbRow::name);
    if (row == rows.end()) throw std::invalid_argument("there is no verb '" + word + "'; --help lists them");
    Operation step{row->verb};
    if (words >> word) step.a = number(word);
    if (words >> word) step.b = number(word);
    script.push_back(step);
  }
  return script;
}

}  // namespace weir::model
