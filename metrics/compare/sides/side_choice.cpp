#include "metrics/compare/sides/side_choice.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "config/values.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare::sides {
namespace {

std::string_view word_for(By by) {
  switch (by) {
    case By::config:
      return "configuration";
    case By::replica:
      return "replica";
    default:
      return "role";
  }
}

std::string in_quotes(std::string_view name) { return '"' + config::one_line(name) + '"'; }

/// The sides by what they are called; a name in two roles is one.
class Choices {
 public:
  Choices(std::span<const samples::Sample> samples, const samples::Names& names, By by) : names_(names), by_(by) {
    for (const auto& side : sides_of(samples, names, by)) {
      const auto text = side.text(names, by);
      primaries_ += side.role == Role::primary ? 1 : 0;
      if (std::ranges::find(texts_, text) == texts_.end()) {
        texts_.push_back(text);
        selections_.push_back({by, side.name, side.role});
        roles_.push_back(1);
      } else {
        roles_[static_cast<std::size_t>(std::ranges::find(texts_, text) - texts_.begin())] = 2;
      }
    }
    for (const auto& shadow : sides_of(samples, names, By::shadow)) {
      shadows_.push_back({By::shadow, shadow.name, Role::shadow});
    }
  }

  const std::vector<std::string>& texts() const { return texts_; }
  const Selection& at(std::size_t index) const { return selections_[index]; }
  /// There is one side, and it is primary and shadow.
  bool one_in_both_roles() const { return texts_.size() == 1 && roles_.front() == 2; }
  bool is_in_both_roles(const Selection& side) const {
    const auto found = std::ranges::find(selections_, side);
    return found != selections_.end() && roles_[static_cast<std::size_t>(found - selections_.begin())] == 2;
  }
  /// The side of all primaries, which candidates are compared with; nothing where primaries have several.
  std::optional<Selection> only_primary() const {
    return primaries_ == 1 ? std::optional(selections_.front()) : std::nullopt;
  }

  std::optional<Selection> find(std::string_view name) const {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == name) return selections_[i];
    }
    for (const auto& shadow : shadows_) {
      if (names_.text(shadow.name) == name) return shadow;
    }
    return std::nullopt;
  }

  std::string list() const {
    if (texts_.empty()) return "there is none";
    std::string list = "there " + std::string(texts_.size() == 1 ? "is" : "are");
    for (const auto& text : texts_) list += (&text == &texts_.front() ? " " : ", ") + in_quotes(text);
    return list;
  }
  std::string word() const { return std::string(word_for(by_)); }

 private:
  const samples::Names& names_;
  const By by_;
  std::vector<std::string> texts_;
  std::vector<int> roles_;
  int primaries_ = 0;
  std::vector<Selection> selections_, shadows_;
};

/// Says that shadows were spared their requests, and why; "" if none was.
std::string spared(std::span<const samples::Sample> samples, const samples::Names& names) {
  Drops drops;
  for (const auto& sample : samples)
    if (sample.drop_reason != 0) ++drops[std::string(names.text(sample.drop_reason))];
  if (drops.empty()) return {};
  return ". Shadows were spared " + counts_text(drops) + ". " + help_against(drops);
}

std::variant<SideChoice, std::string> choose_two(const Choices& choices, std::span<const samples::Sample> samples,
                                                 const samples::Names& names) {
  if (choices.one_in_both_roles()) return SideChoice{choices.at(0), choices.at(0)};
  if (choices.texts().size() == 2) return SideChoice{choices.at(0), choices.at(1)};
  return "Two sides are compared, and by " + choices.word() + ' ' + choices.list() +
         (choices.texts().size() < 2 ? "; choose others with --by, give more logs, or mirror requests to a candidate "
                                       "with a [[shadow]] (docs/guides/shadow.md says how)" +
                                           spared(samples, names)
                                     : "; name two of them with --a and --b");
}

}  // namespace

bool SideKey::holds(const samples::Sample& sample, By by) const {
  return sample.role == role && (by == By::role || name_in(sample, by) == name);
}

std::string SideKey::text(const samples::Names& names, By by) const {
  return std::string(by == By::role ? name_of(role) : names.text(name));
}

std::vector<SideKey> sides_of(std::span<const samples::Sample> samples, const samples::Names& names, By by) {
  std::set<std::pair<Role, samples::Names::Name>> keys;
  for (const auto& sample : samples) {
    const auto name = name_in(sample, by);
    if (by == By::role || name != 0) keys.emplace(sample.role, name);
  }
  std::vector<SideKey> sides;
  for (const auto& [role, name] : keys) sides.push_back({name, role});
  std::ranges::sort(sides, [&](const SideKey& x, const SideKey& y) {
    return std::tuple(x.role, names.text(x.name)) < std::tuple(y.role, names.text(y.name));
  });
  return sides;
}

std::vector<std::vector<const samples::Sample*>> samples_of(std::span<const SideKey> sides,
                                                            std::span<const samples::Sample> samples, By by) {
  std::vector<std::vector<const samples::Sample*>> held(sides.size());
  std::vector<std::set<samples::Names::Name>> shadows(sides.size());
  std::vector<const samples::Sample*> nowhere;
  for (const auto& sample : samples) {
    const auto side = std::ranges::find_if(sides, [&](const SideKey& key) { return key.holds(sample, by); });
    if (side != sides.end()) {
      const auto at = static_cast<std::size_t>(side - sides.begin());
      held[at].push_back(&sample);
      if (sample.role == Role::shadow) shadows[at].insert(sample.shadow);
    } else if (sample.drop_reason != 0) {
      nowhere.push_back(&sample);
    }
  }
  for (const auto* sample : nowhere) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (shadows[i].contains(sample->shadow)) held[i].push_back(sample);
    }
  }
  return held;
}

std::variant<SideChoice, std::string> choose_sides(std::span<const samples::Sample> samples,
                                                   const samples::Names& names, By by, std::string_view a,
                                                   std::string_view b) {
  const Choices choices(samples, names, by);
  if (a.empty() && b.empty()) return choose_two(choices, samples, names);
  const auto unknown_name = [&](std::string_view option, std::string_view name) {
    std::string sentence(option);
    sentence += ' ';
    return sentence + in_quotes(name) + " is no " + choices.word() + " of these requests; " + choices.list();
  };
  const auto found_a = choices.find(a), found_b = choices.find(b);
  if (!a.empty() && !found_a) return unknown_name("--a", a);
  if (!b.empty() && !found_b) return unknown_name("--b", b);
  if (found_a && found_b) {
    // A configuration in two roles is compared with itself: a control, or a floor.
    if (*found_a != *found_b || choices.is_in_both_roles(*found_a)) return SideChoice{*found_a, *found_b};
    return "--a and --b are both " + in_quotes(a) + "; name two sides: by " + choices.word() + ' ' + choices.list();
  }
  if (const auto primary = choices.only_primary(); found_b && primary && *primary != *found_b)
    return SideChoice{*primary, *found_b};
  if (choices.texts().size() != 2 || (found_a ? found_a : found_b)->by == By::shadow) {
    std::string sentence = found_a ? "--b" : "--a";
    sentence += " is missing: by ";
    return sentence + choices.word() + ' ' + choices.list();
  }
  const auto& given = found_a ? a : b;
  const auto& other = choices.at(choices.texts().front() == given ? 1 : 0);
  return found_a ? SideChoice{*found_a, other} : SideChoice{other, *found_b};
}

std::vector<SideChoice> choose_candidates(std::span<const samples::Sample> samples, const samples::Names& names, By by,
                                          std::string_view a) {
  if (by == By::role) return {};
  const Choices choices(samples, names, by);
  const auto against = a.empty() ? choices.only_primary() : choices.find(a);
  if (!against) return {};
  std::vector<SideChoice> found;
  for (std::size_t i = 0; i < choices.texts().size(); ++i) {
    const Selection& other = choices.at(i);
    if (choices.texts()[i] != a && other.name != against->name) found.push_back({*against, other});
  }
  return found.size() > 1 ? found : std::vector<SideChoice>{};
}

}  // namespace weir::metrics::compare::sides
