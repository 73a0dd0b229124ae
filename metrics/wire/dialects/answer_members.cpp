#include "metrics/wire/dialects/answer_members.hpp"

#include <vector>

#include "metrics/wire/dialects/table.hpp"

namespace weir::metrics::wire {

namespace {

AnswerMembers of_all_dialects() {
  std::vector<AnswerMember> all{{AnswerPlace::root, "error", AnswerPlace::error}};
  for (const Dialect* dialect : dialects::all) {
    all.insert(all.end(), dialect->answer_members.begin(), dialect->answer_members.end());
    for (const AnswerFigures& figures : dialect->answer_figures) {
      for (const FigureMember& figure : figures.members)
        all.push_back({figures.in, figure.key, AnswerPlace::number, nullptr, &figure});
    }
  }
  return AnswerMembers(std::move(all));
}

}  // namespace

const AnswerMembers& answer_members() {
  static const AnswerMembers all = of_all_dialects();
  return all;
}

}  // namespace weir::metrics::wire
