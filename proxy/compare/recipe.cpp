#include "proxy/compare/recipe.hpp"

#include <algorithm>

namespace weir::proxy::compare {
namespace {

constexpr Step check_and_reload{"Check the file, and start to mirror (clients notice nothing)",
                                {"weir check --config weir.toml", "weir reload"}};
constexpr Step look{"After a minute see whether mirrored requests arrive (those that are dropped tell nothing)",
                    {"weir status"}};
constexpr std::string_view control_text =
    "A control is the present configuration once more, so that the candidate's place cancels out.";
constexpr std::string_view without_control =
    "Without a GPU for a control leave it out; wait ten minutes more, and texts are not compared.";

constexpr std::array<Recipe, 4> recipes{
    {{"upgrade",
      "A new engine version: is it as fast and as reliable, and does it answer the same?",
      {"It takes two GPUs like gpu0: one for the new version, one for a control.", control_text, without_control, ""},
      {"vllm-0.10", ""},
      {"vllm-0.11", ""},
      "",
      {check_and_reload,
       look,
       {"After 30 minutes ask whether it may take over. Exit status 0 is yes, 3 no, 4 not known yet",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-0.10 --b vllm-0.11 --for 30m --gate"}},
       {"Then give it a growing share of the real requests, by a [[rollout]] (docs/guides/rollout.md)",
        {"weir rollout start upgrade"}}}},
     {"quantised",
      "A quantised model: how much faster is it, and are its answers still whole?",
      {"It takes two GPUs like gpu0: one for the quantised model, one for a control.", control_text, without_control,
       "Texts will differ. Whether they are as good is for your own evaluation; weir sees empty, endless and "
       "broken ones."},
      {"vllm-fp16", ""},
      {"vllm-fp8", ""},
      "set = { model = \"qwen-fp8\" }      # if it serves another model's name\n",
      {check_and_reload,
       look,
       {"After 30 minutes ask whether it is worse. Longer answers cost what faster tokens save, so their mean counts",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-fp16 --b vllm-fp8 --for 30m "
         "--margins output_tokens=5% --gate"}},
       {"For the decision, all figures with charts, as a page",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-fp16 --b vllm-fp8 --for 30m "
         "--html report.html"}}}},
     {"flags",
      "Other flags of the same engine: what do they gain, and what do they cost?",
      {"It takes two GPUs like gpu0: one with the other flags, one for a control.", control_text, without_control,
       "Flags trade TTFT for TPOT. Under low load they show little: choose an hour of high load."},
      {"vllm-default", ""},
      {"vllm-chunked", ""},
      "",
      {check_and_reload,
       look,
       {"After an hour. What may be lost is a margin of yours, such as 10 % of TTFT and 2 % of TPOT",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-default --b vllm-chunked --for 1h "
         "--margins ttft=10%,tpot=2% --gate"}},
       {"By prompt size and by load, since flags may help some requests and hurt others",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-default --b vllm-chunked --for 1h "
         "--details"}}}},
     {"gpu",
      "Another GPU: what does a request cost there, and does it keep the objective?",
      {"It takes one of the other GPUs, and one like gpu0 for a control.", control_text, without_control,
       "Two GPUs of one kind differ by some percent too; the control shows how much."},
      {"vllm-h100", "gpu = \"H100\"\ncost_per_hour = 2.50\n"},
      {"vllm-l40s", "gpu = \"L40S\"\ncost_per_hour = 0.90\n"},
      "",
      {check_and_reload,
       look,
       {"After two hours, calm and busy ones. Cost, and capacity at the objective, with intervals",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-h100 --b vllm-l40s --for 2h --details"}},
       {"A slower GPU may still do. Give the margins that you accept",
        {"weir compare requests.jsonl --config weir.toml --slo chat --a vllm-h100 --b vllm-l40s --for 2h "
         "--margins ttft=50%,tpot=50%,misses=1% --gate"}}}}}};

void add_replica(std::string& text, std::string_view table, std::string_view name, std::string_view address,
                 const RecipeSide& side) {
  text.append("[[").append(table).append(".replica]]\nname = \"").append(name).append("\"\nurl = \"http://");
  text.append(address).append(":8000\"\nconfig = \"").append(side.config).append("\"\n").append(side.more).append("\n");
}

void add_shadow(std::string& text, std::string_view name, std::string_view more) {
  text.append("[[shadow]]\nname = \"").append(name).append("\"\nof = \"chat\"\ntwin = \"gpu0\"");
  text.append("                     # all that this replica gets\n").append(more).append("\n");
}

}  // namespace

std::string Recipe::text() const {
  std::string text = "# " + std::string(question) + "\n";
  for (const auto line : needs) {
    if (!line.empty()) text.append("# ").append(line).append("\n");
  }
  text += "#\n# 1. Add these to weir.toml, with your own names, addresses and objective:\n\n";
  text += "[log]\nrequests = \"requests.jsonl\"\n\n";
  text += "[[pool]]                          # yours, as it is\nname = \"chat\"\n\n";
  add_replica(text, "pool", "gpu0", "10.0.0.10", now);
  text += "[[slo]]\nname = \"chat\"\npool = \"chat\"\nttft_client = 1\ntpot = 0.05\n\n";
  add_shadow(text, "control", "control = true\n");
  add_replica(text, "shadow", "control0", "10.0.0.11", now);
  add_shadow(text, "candidate", of_candidate);
  add_replica(text, "shadow", "candidate0", "10.0.0.12", candidate);
  int number = 1;
  for (const auto& step : steps) {
    text += "# " + std::to_string(++number) + ". " + std::string(step.what) + ":\n";
    for (const auto command : step.commands) {
      if (!command.empty()) text.append("#   $ ").append(command).append("\n");
    }
  }
  return text;
}

const Recipe* find_recipe(std::string_view name) {
  const auto found = std::ranges::find(recipes, name, &Recipe::name);
  return found == recipes.end() ? nullptr : &*found;
}

std::string recipe_names() {
  std::string names;
  for (const auto& recipe : recipes)
    names.append(&recipe == &recipes.front() ? "" : &recipe == &recipes.back() ? " and " : ", ").append(recipe.name);
  return names;
}

}  // namespace weir::proxy::compare
