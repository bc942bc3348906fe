/** Light, dark, or as the system has it; remembered. */

const ORDER = ["system", "light", "dark"] as const;

export function applyTheme(): void {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
  else delete document.documentElement.dataset["theme"];
}

export function toggleTheme(): void {
  const now = ORDER.indexOf((localStorage.getItem("theme") ?? "system") as (typeof ORDER)[number]);
  localStorage.setItem("theme", ORDER[(now + 1) % ORDER.length]!);
  applyTheme();
}
