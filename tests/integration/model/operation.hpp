// An operation is a step of a sequence: a verb and two small numbers. Every number means something in every state,
// because it is taken modulo what is there; so any part of a sequence is a sequence, too, and a failure can be made
// shorter by leaving out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::model {

enum class Verb : std::uint8_t {
  // settings, each with a reload
  add_replica,
  remove_replica,
  rename_replica,
  move_replica,
  limit_replica,
  add_pool,
  remove_pool,
  rename_pool,
  limit_pool,
  add_shadow,
  remove_shadow,
  add_key,
  revoke_key,
  limit_key,
  narrow_key,
  switch_keys,
  switch_tls,
  change_certificate,
  change_limits,
  reload_wrongly,
  answer_names,
  // operators
  drain,
  undrain,
  switch_bypass,
  switch_shadow,
  reopen_log,
  // replicas
  kill,
  hang,
  fail,
  mend,
  await_out,
  single_out,
  spoil,
  stop_process,
  go_on,
  // clients
  hold,
  release,
  leave,
  ask,
  ask_badly,
  ask_slowly,
  crowd,
  stall,
  pipeline,
  come_back,
  besiege,
  change_keys,
  flood,
};

/// The facts about a verb.
struct VerbRow {
  Verb verb;
  std::string_view name;
  std::size_t weight;     ///< How often it is drawn, next to the others.
  std::string_view does;  ///< A line of the help. `a` and `b` are the numbers.
};

std::span<const VerbRow> verbs();
/// Returns the name of a verb.
std::string_view name_of(Verb verb);

struct Operation {
  Verb verb = Verb::ask;
  unsigned a = 0, b = 0;
  bool operator==(const Operation&) const = default;
};
using Script = std::vector<Operation>;

/// Returns a script in one line, as parse() reads it: "remove-replica 1; hold 0 2".
std::string in_one_line(const Script& script);
/// Reads steps apart by ";" or line ends. Throws std::invalid_argument and names the word that is wrong.
Script parse(std::string_view text);

}  // namespace weir::model
